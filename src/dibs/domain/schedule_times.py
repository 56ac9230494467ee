"""When a schedule ticks: by cron in a time zone, or at a fixed distance. Nothing is decided here.

Local times that a change of the clocks skips or repeats are treated as Debian's cron does, by cronsim:
a cron expression that names both minute and hour ticks once on such a day, as soon as its time has come or is skipped;
one where either begins with ``*``, or that has a field for seconds, follows the clock on the wall as it goes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from dibs.domain.checks import check_duration, check_text
from dibs.domain.errors import InvalidRequest, Problem
from dibs.domain.retry import SECOND, Duration, micros

LEAST_INTERVAL = 1.0
"""Seconds; what ticks more often is no schedule but a loop."""

_MAX_CRON = 255
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST_WINDOW = 60 * SECOND
_WIDER = 8


class Timing(msgspec.Struct, frozen=True, omit_defaults=True):
    """Either a cron expression, of five fields or six (seconds first), or an interval."""

    cron: str | None = None
    every_us: int | None = None
    tz: str = "UTC"

    def ticks(self, after: int, origin: int) -> Iterator[int]:
        """List the ticks later than ``after``, in order; those of an interval are counted from ``origin``."""
        if self.every_us is not None:
            yield from self._regular(after, origin, self.every_us)
        elif self.cron is not None:
            yield from _by_cron(self.cron, self.tz, after)

    def next(self, after: int, origin: int) -> int | None:
        """Say when the first tick later than ``after`` is; none if it never comes."""
        return next(self.ticks(after, origin), None)

    def newest(self, after: int, until: int, most: int) -> list[int]:
        """List the ticks later than ``after`` and not later than ``until``, in order: the newest so many of them.

        However long ago ``after`` is, this costs no more than a few times ``most`` ticks.
        """
        if until <= after:
            return []
        if self.every_us is not None:
            number = (until - after) // self.every_us
            return [after + place * self.every_us for place in range(max(1, number - most + 1), number + 1)]
        window = _FIRST_WINDOW
        while True:
            begin = max(after, until - window)
            found = deque(_until(self.ticks(begin, after), until), maxlen=most)
            if len(found) == most or begin == after:
                return list(found)
            window *= _WIDER

    @staticmethod
    def _regular(after: int, origin: int, every: int) -> Iterator[int]:
        tick = origin + max(1, (after - origin) // every + 1) * every
        while True:
            yield tick
            tick += every

    def __str__(self) -> str:
        if self.every_us is not None:
            return f"every {timedelta(microseconds=self.every_us)}"
        return f"{self.cron} {self.tz}"


def _until(ticks: Iterator[int], until: int) -> Iterator[int]:
    for tick in ticks:
        if tick > until:
            return
        yield tick


def _by_cron(cron: str, tz: str, after: int) -> Iterator[int]:
    from cronsim import CronSim

    try:
        begin = (_EPOCH + timedelta(microseconds=after)).astimezone(_zone(tz))
    except OverflowError:  # past the year 9999
        return
    last = after
    for local in CronSim(cron, begin):
        tick = (local - _EPOCH) // _MICROSECOND
        # In a repeated hour a fixed time is looked for by the clock on the wall, and found where it was the first time.
        if tick > last:
            last = tick
            yield tick


@lru_cache(maxsize=256)
def _zone(name: str) -> tzinfo:
    return UTC if name == "UTC" else ZoneInfo(name)


def timing_of(cron_or_interval: str | Duration, tz: str = "UTC") -> Timing:
    """Check when a schedule is to tick: a text is cron, anything else an interval."""
    problems = check_zone(tz)
    if isinstance(cron_or_interval, str):
        problems += [] if problems else check_cron("cron", cron_or_interval, tz)
        timing = Timing(cron=" ".join(cron_or_interval.split()), tz=tz)
    else:
        problems += check_duration("interval", cron_or_interval, least=LEAST_INTERVAL)
        if tz != "UTC":
            problems.append(Problem("tz", "is for cron; an interval is the same everywhere"))
        timing = Timing(every_us=0 if problems else micros(cron_or_interval))
    if problems:
        raise InvalidRequest(problems)
    return timing


def check_zone(tz: Any) -> list[Problem]:
    """Check the name of a time zone."""
    problems = check_text("tz", tz, most=_MAX_CRON)
    if problems:
        return problems
    try:
        _zone(tz)
    except (OSError, ValueError):  # ZoneInfoNotFoundError is a KeyError; a folder and a strange path are these
        return [Problem("tz", f"{tz!r} is not the name of a time zone")]
    except KeyError:
        return [Problem("tz", f"{tz!r} is no time zone that is known here, such as Europe/Berlin")]
    return []


def check_cron(field: str, cron: str, tz: str) -> list[Problem]:
    """Check a cron expression; one that never comes is a mistake too."""
    from cronsim import CronSimError

    problems = check_text(field, cron, most=_MAX_CRON)
    if problems:
        return problems
    try:
        first = list(islice(_by_cron(cron, tz, 0), 1))
    except (CronSimError, AssertionError) as error:
        what = str(error) or "it cannot be read"
        return [Problem(field, f"{cron!r} is no cron expression of five fields, or six with seconds: {what}")]
    return [] if first else [Problem(field, f"{cron!r} never comes")]
