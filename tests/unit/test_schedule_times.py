"""When a schedule ticks: compared with the clock on the wall, second by second, where that is changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dibs.domain.errors import InvalidRequest
from dibs.domain.retry import SECOND
from dibs.domain.schedule_times import Timing, timing_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def us(time: datetime) -> int:
    return (time - EPOCH) // timedelta(microseconds=1)


def utc(text: str) -> int:
    return us(datetime.fromisoformat(text).replace(tzinfo=UTC))


def local_ticks(cron: str, tz: str, begin: str, days: float) -> list[str]:
    """The ticks of some days from a local midnight on, as the wall shows them; +: the second time on that day."""
    zone = ZoneInfo(tz)
    start = us(datetime.fromisoformat(begin).replace(tzinfo=zone)) - 1
    end = start + round(days * 86_400 * SECOND)
    found: list[str] = []
    for tick in timing_of(cron, tz).ticks(start, start):
        if tick > end:
            return found
        time = (EPOCH + timedelta(microseconds=tick)).astimezone(zone)
        found.append(f"{time:%d %H:%M}" + "+" * time.fold)
    return found


@pytest.mark.parametrize(
    ("cron", "tz", "begin", "days", "expected"),
    [
        # Skipped local times: 02:00 to 03:00 on 28 March in Berlin. A fixed time comes as soon as it is skipped, once.
        ("30 2 * * *", "Europe/Berlin", "2027-03-27", 3, ["27 02:30", "28 03:00", "29 02:30"]),
        ("15,45 2 * * *", "Europe/Berlin", "2027-03-28", 1, ["28 03:00", "29 02:15"][:1]),
        ("0 3 * * *", "Europe/Berlin", "2027-03-28", 0.9, ["28 03:00"]),
        ("*/30 2 * * *", "Europe/Berlin", "2027-03-28", 0.9, []),  # the wall never showed it
        ("0 1-4 * * *", "Europe/Berlin", "2027-03-28", 0.9, ["28 01:00", "28 03:00", "28 04:00"]),
        # Repeated ones: 02:00 to 03:00 on 31 October. A fixed time comes the first time, and not again.
        ("30 2 * * *", "Europe/Berlin", "2027-10-30", 3, ["30 02:30", "31 02:30", "01 02:30"]),
        ("*/30 2 * * *", "Europe/Berlin", "2027-10-31", 1, ["31 02:00", "31 02:30", "31 02:00+", "31 02:30+"]),
        ("0 1-4 * * *", "Europe/Berlin", "2027-10-31", 1, ["31 01:00", "31 02:00", "31 03:00", "31 04:00"]),
        # New York: 02:00 to 03:00 skipped on 14 March, 01:00 to 02:00 repeated on 7 November.
        ("30 2 * * *", "America/New_York", "2027-03-13", 3, ["13 02:30", "14 03:00", "15 02:30"]),
        ("30 1 * * *", "America/New_York", "2027-11-06", 3, ["06 01:30", "07 01:30", "08 01:30"]),
        ("0 * * * *", "America/New_York", "2027-11-07", 0.15, ["07 00:00", "07 01:00", "07 01:00+", "07 02:00"]),
        # Half an hour of difference.
        ("45 1 * * *", "Australia/Lord_Howe", "2027-04-03", 3, ["03 01:45", "04 01:45", "05 01:45"]),
        ("15 2 * * *", "Australia/Lord_Howe", "2027-10-02", 3, ["02 02:15", "03 02:30", "04 02:15"]),
    ],
)
def test_local_times_that_are_skipped_or_repeated(
    cron: str, tz: str, begin: str, days: float, expected: list[str]
) -> None:
    assert local_ticks(cron, tz, begin, days) == expected


@pytest.mark.parametrize("tz", ["Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize("cron", ["*/7 * * * *", "0 */6 * * *", "*/20 2 * * *", "0 30 1,2 * * *"])
def test_what_follows_the_wall_is_there_whenever_the_wall_shows_it(cron: str, tz: str) -> None:
    timing = timing_of(cron, tz)
    zone = ZoneInfo(tz)
    minute, hour = cron.split()[-5:-3]
    for day in ("2027-03-14", "2027-03-28", "2027-10-31", "2027-11-07"):
        start = us(datetime.fromisoformat(day).replace(tzinfo=zone))
        walked = []
        for step in range(26 * 60):
            time = (EPOCH + timedelta(microseconds=start) + timedelta(minutes=step)).astimezone(zone)
            if _shows(minute, time.minute) and _shows(hour, time.hour):
                walked.append(us(time))
        found = timing.ticks(start - 1, start)
        assert [tick for tick in islice(found, len(walked) + 1) if tick < start + 26 * 3600 * SECOND] == walked


def _shows(field: str, value: int) -> bool:
    if "/" in field:
        return value % int(field.split("/")[1]) == 0
    return field == "*" or str(value) in field.split(",")


@settings(max_examples=40, deadline=None)
@given(
    cron=st.sampled_from(["30 2 * * *", "*/20 * * * *", "15 1,2,3 * * *", "0 0 * * MON", "0 30 2 * * *", "59 1 * * *"]),
    tz=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
    day=st.sampled_from(["2027-03-14", "2027-03-28", "2027-04-04", "2027-10-03", "2027-10-31", "2027-11-07"]),
    offset=st.integers(0, 30 * 3600),
)
def test_it_does_not_matter_where_one_begins_to_look(cron: str, tz: str, day: str, offset: int) -> None:
    timing = timing_of(cron, tz)
    start = utc(day) - 86_400 * SECOND
    place = utc(day) - 3 * 3600 * SECOND + offset * SECOND
    end = start + 16 * 86_400 * SECOND  # a week and more after whatever place
    every = list(takewhile(lambda tick: tick <= end, timing.ticks(start, start)))

    assert every == sorted(set(every))
    assert timing.next(place, start) == next(tick for tick in every if tick > place)
    assert timing.newest(start, place, 3) == [tick for tick in every if tick <= place][-3:]
    assert timing.newest(place, end, 10_000) == [tick for tick in every if tick > place]


def test_in_the_repeated_hour_no_fixed_time_is_found_behind_us() -> None:
    timing = timing_of("45 2 * * *", "Europe/Berlin")
    in_the_second = utc("2027-10-31T01:20")  # 02:20 for the second time; 02:45 was at 00:45 UTC

    assert timing.next(utc("2027-10-31T00:20"), 0) == utc("2027-10-31T00:45")
    assert timing.next(in_the_second, 0) == utc("2027-11-01T01:45")
    assert timing.newest(in_the_second, utc("2027-11-01"), 5) == []


@settings(max_examples=40, deadline=None)
@given(every=st.integers(SECOND, 10 * SECOND), passed=st.integers(-SECOND, 100 * SECOND), most=st.integers(1, 5))
def test_intervals_are_counted_from_where_they_began(every: int, passed: int, most: int) -> None:
    timing, origin = Timing(every_us=every), 1_000 * SECOND
    all_of_them = [origin + place * every for place in range(1, 200)]
    until = origin + passed

    assert timing.newest(origin, until, most) == [tick for tick in all_of_them if tick <= until][-most:]
    assert timing.next(until, origin) == next(tick for tick in all_of_them if tick > until)


def test_looking_for_the_newest_does_not_walk_through_years() -> None:
    timing = timing_of("* * * * * *")
    now = utc("2027-01-01")
    ten_years = 10 * 365 * 86_400 * SECOND
    steps = 0

    class Counted(Timing, frozen=True):
        def ticks(self, after: int, origin: int):
            nonlocal steps
            for tick in timing.ticks(after, origin):
                steps += 1
                yield tick

    assert Counted(cron=timing.cron).newest(now - ten_years, now, 1000) == [
        now - place * SECOND for place in range(999, -1, -1)
    ]
    assert steps < 20_000


@pytest.mark.parametrize(
    ("given", "tz", "field"),
    [
        ("* * * *", "UTC", "cron"),
        ("61 * * * *", "UTC", "cron"),
        ("every day", "UTC", "cron"),
        ("", "UTC", "cron"),
        ("0 0 30 2 *", "UTC", "cron"),
        ("@daily", "UTC", "cron"),
        ("* * * * *\x00", "UTC", "cron"),
        ("*/0 * * * *", "UTC", "cron"),
        ("L/2 * * * *", "UTC", "cron"),
        ("* " * 300, "UTC", "cron"),
        ("* * * * *", "Mars/Olympus", "tz"),
        ("* * * * *", "", "tz"),
        ("* * * * *", "../../etc/passwd", "tz"),
        ("* * * * *", "Europe", "tz"),
        ("* * * * *", 3, "tz"),
        (0.5, "UTC", "interval"),
        (float("nan"), "UTC", "interval"),
        (True, "UTC", "interval"),
        (None, "UTC", "interval"),
        (timedelta(milliseconds=1), "UTC", "interval"),
        (60, "Europe/Berlin", "tz"),
    ],
)
def test_what_cannot_be_a_schedule_is_refused_by_its_field(given, tz, field) -> None:
    with pytest.raises(InvalidRequest) as refused:
        timing_of(given, tz)

    assert [problem.field for problem in refused.value.problems] == [field]


def test_time_ends_with_the_year_9999() -> None:
    timing = timing_of("0 0 1 1 *")
    assert timing.next(utc("9998-06-01"), 0) == utc("9999-01-01")
    assert timing.next(2**62, 0) is None
