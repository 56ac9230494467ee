"""publish, tick, pause, resume, run: each tick of a schedule is one job, whoever enqueues it, and however often."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from dibs.domain.errors import Invalid, InvalidRequest, NotFound, TooLarge
from dibs.domain.job import Filter, Status
from dibs.domain.schedule import KEPT, MOST_MISSED, CatchUp, Plan, key_of, tag_of
from dibs.domain.schedule_times import Timing, timing_of
from dibs.testing.conformance.broker.base import TUNED, Suite
from dibs.testing.conformance.broker.verbs import claim, claim_one, complete, enqueue, new, settle

if TYPE_CHECKING:
    from dibs.broker.protocol import Broker
    from dibs.clock import FakeClock
    from dibs.domain.job import Job

HOUR, DAY = 3600, 86_400
SECOND = 1_000_000


def plan(name: str = "report", when: str | float = 10, *, tz: str = "UTC", catch_up: str = "last", **job: Any) -> Plan:
    """Make a schedule of a job of task ``work``."""
    return Plan(name, timing_of(when, tz), new("work", **job), CatchUp(catch_up))


async def jobs_of(broker: Broker, name: str = "report") -> list[Job]:
    """Read the jobs of a schedule, oldest first."""
    jobs: list[Job] = []
    cursor = None
    while True:
        page, cursor = await broker.find(Filter(tag=tag_of(name)), limit=1000, cursor=cursor)
        jobs += page
        if cursor is None:
            return sorted(jobs, key=lambda job: job.idempotency_key or "")


async def ticks_of(broker: Broker, name: str = "report") -> list[datetime]:
    """Read which ticks were enqueued, and see that each was so once."""
    keys = [job.idempotency_key or "" for job in await jobs_of(broker, name)]
    assert len(set(keys)) == len(keys)
    return [datetime.fromisoformat(key.removeprefix(f"schedule:{name}:")) for key in keys]


def at(clock: FakeClock, offset: float = 0) -> datetime:
    """Read the clock, or tell a time so many seconds from it."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=clock.now()) + timedelta(seconds=offset)


def go_to(clock: FakeClock, time: datetime) -> None:
    """Move the clock on."""
    clock.advance(time - at(clock))


class ScheduleSuite(Suite):
    """Schedules."""

    async def test_publish_makes_known(self, broker: Broker, clock: FakeClock) -> None:
        assert await broker.schedules() == []
        cron = plan("nightly/report", "30 3 * * *", tz="Europe/Berlin", params={"days": 7}, queue="mail")
        await broker.publish([cron, plan("often", 2.5, catch_up="all")])

        nightly, often = await broker.schedules()
        assert (nightly.name, nightly.task, nightly.queue) == ("nightly/report", "work", "mail")
        assert (nightly.params, nightly.cron, nightly.tz) == ({"days": 7}, "30 3 * * *", "Europe/Berlin")
        assert (nightly.status, nightly.catch_up, nightly.last_tick_at) == ("active", "last", None)
        assert nightly.next_at is not None
        assert nightly.next_at.astimezone(ZoneInfo("Europe/Berlin")).strftime("%H:%M") == "03:30"
        assert (often.every, often.catch_up) == (2.5, "all")
        assert often.next(2) == [at(clock, 2.5), at(clock, 5)]

    async def test_tick_enqueues_what_is_due_and_no_more(self, broker: Broker, clock: FakeClock) -> None:
        await broker.publish([plan(params={"a": 1}, priority=7, tags=["mine"])])
        begun = at(clock)
        before = await broker.tick(["report"])
        assert (before.enqueued, before.next_in, before.unknown) == (0, 10, ())
        clock.advance(9.5)
        assert (await broker.tick(["report"])).next_in == 0.5
        assert await ticks_of(broker) == []
        clock.advance(0.5)
        ticked = await broker.tick(["report"])

        assert (ticked.enqueued, ticked.next_in) == (1, 10)
        [job] = await jobs_of(broker)
        assert (job.task, job.params, job.priority, job.status) == ("work", {"a": 1}, 7, Status.PENDING)
        assert job.tags == ("mine", "schedule:report")
        assert await ticks_of(broker) == [begun + timedelta(seconds=10)]
        assert (await broker.tick(["report"])).enqueued == 0
        [info] = await broker.schedules()
        assert info.last_tick_at == begun + timedelta(seconds=10)
        assert [each.id for each in await claim(broker)] == [job.id]

    async def test_tick_from_many_at_once_enqueues_each_once(self, broker: Broker, clock: FakeClock) -> None:
        await broker.publish([plan(when=1), plan("other", 2)])
        begun = at(clock)
        for _ in range(6):
            clock.advance(1)
            await asyncio.gather(*(broker.tick(["report", "other"]) for _ in range(5)))

        assert await ticks_of(broker) == [begun + timedelta(seconds=second) for second in range(1, 7)]
        assert await ticks_of(broker, "other") == [begun + timedelta(seconds=second) for second in (2, 4, 6)]

    async def test_tick_is_in_time_for_all_that_came_while_processes_were_slow(
        self, broker: Broker, clock: FakeClock
    ) -> None:
        await broker.publish([plan(when=1, catch_up="none")])
        begun = at(clock)
        clock.advance(5)
        await broker.tick(["report"])

        assert await ticks_of(broker) == [begun + timedelta(seconds=second) for second in range(1, 6)]
        jobs = await claim(broker)
        assert [job.idempotency_key for job in jobs] == sorted(job.idempotency_key or "" for job in jobs)

    @pytest.mark.parametrize(("policy", "made_up"), [("last", [5]), ("all", [1, 2, 3, 4, 5]), ("none", [])])
    async def test_tick_after_nothing_ran(
        self, broker: Broker, clock: FakeClock, policy: str, made_up: list[int]
    ) -> None:
        await broker.publish([plan(when=HOUR, catch_up=policy)])
        begun = at(clock)
        clock.advance(5.5 * HOUR)
        await broker.publish([plan(when=HOUR, catch_up=policy)])  # as a worker that starts does
        ticked = await broker.tick(["report"])

        assert await ticks_of(broker) == [begun + timedelta(hours=hour) for hour in made_up]
        assert ticked.next_in == 0.5 * HOUR
        clock.advance(0.5 * HOUR)
        await broker.tick(["report"])
        assert (await ticks_of(broker))[len(made_up) :] == [begun + timedelta(hours=6)]

    async def test_tick_a_moment_late_is_not_missed(self, broker: Broker, clock: FakeClock) -> None:
        await broker.publish([plan(when=HOUR, catch_up="none")])
        clock.advance(HOUR + 59)
        await broker.tick(["report"])

        assert await ticks_of(broker) == [at(clock, -59)]

    async def test_tick_after_a_long_time_is_bounded_and_in_order(self, broker: Broker, clock: FakeClock) -> None:
        await broker.publish([plan(when="* * * * * *", catch_up="all"), plan("last", "* * * * * *")])
        clock.advance(40 * DAY)
        await broker.tick(["report", "last"])

        ticks = await ticks_of(broker)
        assert len(ticks) == MOST_MISSED
        assert ticks[-1] == at(clock)
        assert {after - before for before, after in pairwise(ticks)} == {timedelta(seconds=1)}
        assert await ticks_of(broker, "last") == [at(clock)]

    async def test_tick_does_not_come_twice_if_the_clock_is_set_back(self, broker: Broker, clock: FakeClock) -> None:
        await broker.publish([plan(when=60)])
        begun = at(clock)
        for minute in range(1, 4):
            go_to(clock, begun + timedelta(minutes=minute))
            await broker.tick(["report"])
        clock.advance(-150)
        assert (await broker.tick(["report"])).enqueued == 0
        for minute in range(1, 5):
            go_to(clock, begun + timedelta(minutes=minute))
            await broker.tick(["report"])

        assert await ticks_of(broker) == [begun + timedelta(minutes=minute) for minute in (1, 2, 3, 4)]

    @pytest.mark.parametrize(
        ("when", "hourly", "daily"),
        [
            ("2027-03-28 Europe/Berlin", 23, "03:00"),
            ("2027-10-31 Europe/Berlin", 25, "02:30"),
            ("2027-03-14 America/New_York", 23, "03:00"),
            ("2027-11-07 America/New_York", 25, "01:30"),
        ],
    )
    async def test_tick_across_a_change_of_the_clocks(
        self, broker: Broker, clock: FakeClock, when: str, hourly: int, daily: str
    ) -> None:
        day, zone = when.split()
        local = ZoneInfo(zone)
        midnight = datetime.fromisoformat(f"{day}T00:00").replace(tzinfo=local).astimezone(UTC)
        end = (datetime.fromisoformat(f"{day}T00:00") + timedelta(days=1)).replace(tzinfo=local).astimezone(UTC)
        fixed = "30 1 * * *" if daily == "01:30" else "30 2 * * *"
        go_to(clock, midnight - timedelta(seconds=1))
        await broker.publish([plan("hourly", "0 * * * *", tz=zone), plan("daily", fixed, tz=zone)])
        while at(clock) < end - timedelta(seconds=1):
            clock.advance(min(timedelta(minutes=15), end - timedelta(seconds=1) - at(clock)))
            await asyncio.gather(*(broker.tick(["hourly", "daily"]) for _ in range(2)))

        assert await ticks_of(broker, "hourly") == [midnight + timedelta(hours=hour) for hour in range(hourly)]
        assert [f"{tick.astimezone(local):%H:%M}" for tick in await ticks_of(broker, "daily")] == [daily]

    async def test_publish_otherwise_does_not_replay(self, broker: Broker, clock: FakeClock) -> None:
        await broker.publish([plan(when=HOUR, catch_up="all")])
        clock.advance(3.5 * HOUR)
        await broker.publish([plan(when="*/10 * * * *", catch_up="all")])
        published = at(clock)
        await broker.tick(["report"])
        assert await ticks_of(broker) == []
        clock.advance(600)
        await broker.tick(["report"])

        [tick] = await ticks_of(broker)
        assert published < tick <= at(clock)

    async def test_publish_other_params_keeps_the_place(self, broker: Broker, clock: FakeClock) -> None:
        await broker.publish([plan(when=HOUR, params={"old": 1})])
        begun = at(clock)
        clock.advance(1.5 * HOUR)
        await broker.publish([plan(when=HOUR, params={"new": 1}, catch_up="all")])
        await broker.tick(["report"])

        assert await ticks_of(broker) == [begun + timedelta(hours=1)]
        assert [job.params for job in await jobs_of(broker)] == [{"new": 1}]

    async def test_tick_that_was_enqueued_with_other_params_holds_nothing_up(
        self, broker: Broker, clock: FakeClock
    ) -> None:
        await broker.publish([plan(when=1, params={"new": 1})])
        clock.advance(3)
        old = await enqueue(broker, "work", {"old": 1}, idempotency_key=key_of("report", clock.now() - SECOND))
        await broker.tick(["report"])

        assert [job.params for job in await jobs_of(broker)] == [{"new": 1}] * 2
        assert await broker.get(old.id) is not None
        assert (await broker.tick(["report"])).enqueued == 0

    async def test_tick_of_one_who_stood_still_finds_the_job_though_it_ended(
        self, broker: Broker, clock: FakeClock
    ) -> None:
        await broker.publish([plan(retention=0), plan("usual", 10)])
        clock.advance(10)
        await broker.tick(["report", "usual"])
        for _ in range(2):
            await settle(broker, complete(await claim_one(broker)))
        clock.advance(DAY - 1)

        # Who stood still since it read the schedule would send this.
        late = await enqueue(broker, "work", idempotency_key=key_of("report", clock.now() - (DAY - 1) * SECOND))
        assert late.was_duplicate
        assert late.status is Status.COMPLETED
        [usual] = await jobs_of(broker, "usual")
        assert usual.keep.completed == 7 * DAY * SECOND

    async def test_pause_and_resume(self, broker: Broker, clock: FakeClock) -> None:
        await broker.publish([plan(when=HOUR, catch_up="all")])
        begun = at(clock)
        paused = await broker.pause_schedule("report", by="olga")
        assert (paused.status, paused.paused_by, paused.next_at) == ("paused", "olga", None)
        await broker.pause_schedule("report")
        clock.advance(2.5 * HOUR)
        await broker.publish([plan(when=HOUR, catch_up="all")])  # a worker that starts does not resume it
        ticked = await broker.tick(["report"])
        assert (ticked.enqueued, ticked.next_in) == (0, None)
        resumed = await broker.resume_schedule("report")
        assert (resumed.status, resumed.next_at) == ("active", begun + timedelta(hours=3))
        assert (await broker.tick(["report"])).enqueued == 0
        clock.advance(0.5 * HOUR)
        await broker.tick(["report"])

        assert await ticks_of(broker) == [begun + timedelta(hours=3)]

    async def test_run_now_is_beside_the_ticks(self, broker: Broker, clock: FakeClock) -> None:
        await broker.publish([plan(when=HOUR, params={"a": 1})])
        await broker.pause_schedule("report")
        first, second = await broker.run_schedule("report"), await broker.run_schedule("report")

        assert first.id != second.id
        assert (first.task, first.params, first.idempotency_key) == ("work", {"a": 1}, None)
        assert len(await jobs_of(broker)) == 2
        await broker.resume_schedule("report")
        clock.advance(HOUR)
        assert (await broker.tick(["report"])).enqueued == 1

    async def test_schedule_that_no_one_looks_after(self, broker: Broker, clock: FakeClock) -> None:
        await broker.publish([plan(when=DAY), plan("cared-for", DAY)])
        for _ in range(3):
            clock.advance(601)
            await broker.tick(["cared-for"])
        assert [info.status for info in await broker.schedules()] == ["active", "stale"]
        clock.advance(KEPT // SECOND)

        assert await broker.schedules() == []
        assert (await broker.tick(["report"])).unknown == ("report",)

    async def test_what_is_not_there(self, broker: Broker) -> None:
        ticked = await broker.tick(["none"])
        assert (ticked.enqueued, ticked.next_in, ticked.unknown) == (0, None, ("none",))
        for call in (broker.pause_schedule("none"), broker.resume_schedule("none"), broker.run_schedule("none")):
            with pytest.raises(NotFound):
                await call

    async def test_settings_of_the_queue_hold(self, broker: Broker, clock: FakeClock) -> None:
        await broker.publish([plan(queue=TUNED)])
        clock.advance(10)
        await broker.tick(["report"])

        [job] = await jobs_of(broker)
        assert (job.priority, job.max_attempts, job.terms.lease_us) == (10, 5, 7 * SECOND)
        assert (job.keep.completed, job.keep.failed) == (DAY * SECOND, DAY * SECOND)  # longer than the queue says

    @pytest.mark.parametrize(
        "job",
        [
            {"id": "a"},
            {"idempotency_key": "k"},
            {"delay": 5},
            {"scheduled_at": datetime(2030, 1, 1, tzinfo=UTC)},
            {"priority": "huge"},
            {"params": float("nan")},
            {"tags": [f"tag-{number}" for number in range(32)]},
        ],
        ids=lambda job: next(iter(job)),
    )
    async def test_publish_refuses_what_no_tick_could_be(self, broker: Broker, job: dict[str, Any]) -> None:
        with pytest.raises(Invalid) as refused:
            await broker.publish([plan("good"), plan(**job)])

        assert next(iter(job)) in refused.value.problems[0].field
        assert await broker.schedules() == []

    async def test_publish_refuses_what_is_too_large(self, broker: Broker) -> None:
        with pytest.raises(TooLarge):
            await broker.publish([plan(params="x" * 70_000)])

    async def test_names_are_checked(self, broker: Broker) -> None:
        for call in (
            broker.tick([]),
            broker.tick(["a b"]),
            broker.pause_schedule("../x"),
            broker.publish([plan("a b")]),
        ):
            with pytest.raises(InvalidRequest):
                await call

    async def test_publish_at_once_begins_once(self, broker: Broker, clock: FakeClock) -> None:
        await asyncio.gather(*(broker.publish([plan(when=10)]) for _ in range(8)))

        [info] = await broker.schedules()
        assert (info.timing, info.next_at) == (Timing(every_us=10 * SECOND), at(clock, 10))
