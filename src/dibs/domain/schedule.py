"""Schedules: what is to be enqueued when, and what of it is due. Pure: the broker reads, asks here, and writes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import Any, Literal, NamedTuple

import msgspec

from dibs.domain import checks
from dibs.domain.errors import InvalidRequest, Problem
from dibs.domain.job import DAY, Draft, Keep, time_of
from dibs.domain.newjob import NewJob
from dibs.domain.retry import SECOND, micros
from dibs.domain.schedule_times import Timing

LATE = 60 * SECOND
"""Microseconds. A tick that no process got to within this time was missed, and the policy says what becomes of it."""
MOST_MISSED = 1000
"""How many missed ticks ``all`` enqueues; older ones are dropped."""
SEEN_EVERY = 600 * SECOND
"""How often, at least, a process that looks after a schedule leaves word that it does."""
KEPT = micros(90 * DAY)
"""How long a schedule is remembered that no process looks after."""
LEAST_KEPT = micros(DAY)
"""How long a tick's job is kept at the least, and its key with it, whatever its task says.

Race: a process reads the schedule, stands still, and enqueues a tick that others have dealt with meanwhile.
The key of the tick's job tells, for as long as there is that job.
"""
MAX_PARAMS = 64 * 1024
"""Bytes of JSON: a schedule is read each time that a process looks at it."""
MOST_SCHEDULES = 1000

_NOT_OF_A_TICK = ("id", "idempotency_key", "delay", "scheduled_at")


Policy = Literal["last", "all", "none"]
"""What ``catch_up`` may be."""


class CatchUp(StrEnum):
    """What becomes of the ticks that were missed while nothing ran."""

    LAST = "last"
    ALL = "all"
    NONE = "none"


class Plan(msgspec.Struct, frozen=True):
    """A schedule as the code defines it: ``job`` is what each tick enqueues."""

    name: str
    timing: Timing
    job: NewJob
    catch_up: CatchUp = CatchUp.LAST


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """A schedule as the store keeps it: all that is needed to enqueue its ticks."""

    timing: Timing
    draft: Draft
    last_us: int  # every tick up to here was dealt with; those of an interval are counted from here
    seen_us: int  # when a process last looked after it
    catch_up: CatchUp = CatchUp.LAST
    tick_us: int | None = None  # the last tick that was enqueued
    paused: bool = False
    by: str | None = None  # who paused it


class Due(NamedTuple):
    """The ticks to enqueue now, in order, and up to where the schedule is dealt with after that."""

    ticks: list[int]
    last_us: int


class Ticked(msgspec.Struct, frozen=True):
    """What came of a look at some schedules."""

    enqueued: int  # ticks, whoever was first
    next_in: float | None  # seconds until the next tick of one of them
    unknown: tuple[str, ...] = ()  # those that the store does not know, or no longer


class ScheduleInfo(msgspec.Struct, frozen=True):
    """One schedule at a glance, as it stood at ``now_us``."""

    name: str
    task: str
    queue: str
    params_json: bytes
    timing: Timing
    catch_up: CatchUp
    paused: bool
    paused_by: str | None
    last_us: int
    tick_us: int | None
    seen_us: int
    now_us: int

    @property
    def status(self) -> str:
        """``active``, ``paused``, or ``stale`` if no process looks after it."""
        if self.paused:
            return "paused"
        return "stale" if self.now_us - self.seen_us > 2 * SEEN_EVERY else "active"

    @property
    def params(self) -> Any:
        """The params of its jobs."""
        return msgspec.json.decode(self.params_json)

    @property
    def cron(self) -> str | None:
        """The cron expression, if it goes by one."""
        return self.timing.cron

    @property
    def every(self) -> float | None:
        """The interval in seconds, if it has one."""
        return None if self.timing.every_us is None else self.timing.every_us / SECOND

    @property
    def tz(self) -> str:
        """The time zone of the cron expression."""
        return self.timing.tz

    @property
    def last_tick_at(self) -> datetime | None:
        """The last tick that was enqueued."""
        return time_of(self.tick_us)

    @property
    def last_seen_at(self) -> datetime | None:
        """When a process last said that it looks after it: at each tick, and every ten minutes."""
        return time_of(self.seen_us)

    @property
    def next_at(self) -> datetime | None:
        """When it ticks next; none while it is paused."""
        return None if self.paused else next(iter(self.next(1)), None)

    def next(self, number: int = 5) -> list[datetime]:
        """List the next ticks, in UTC; of a paused schedule those that would come."""
        ticks = self.timing.ticks(max(self.now_us, self.last_us), self.last_us)
        times = [time_of(tick) for tick in islice(ticks, number)]
        return [time for time in times if time is not None]


def check_plan(plan: Plan) -> list[Problem]:
    """List what is wrong with a schedule, but for its job, which is checked as every job."""
    problems = checks.check_name("name", plan.name)
    job: Any = plan.job
    problems += [
        Problem(field, "is not for a schedule, whose every tick is a job of its own")
        for field in _NOT_OF_A_TICK
        if getattr(job, field) is not None
    ]
    if len(job.tags) >= checks.MAX_TAGS:
        problems.append(Problem("tags", f"must be {checks.MAX_TAGS - 1} at most; the schedule's own is one more"))
    return problems


def catch_up_of(value: Any) -> CatchUp:
    """Check a policy."""
    try:
        return CatchUp(value)
    except ValueError:
        raise InvalidRequest([Problem("catch_up", f"must be one of {', '.join(CatchUp)}")]) from None


def tag_of(name: str) -> str:
    """Name the tag that the jobs of a schedule have, cut where a tag ends."""
    return f"schedule:{name}"[: checks.MAX_NAME]


def template(draft: Draft, name: str) -> Draft:
    """Make what is kept of a checked job: kept long enough after its end, and marked as the schedule's."""
    keep = draft.keep
    longer = Keep(*(max(LEAST_KEPT, each) for each in (keep.completed, keep.failed, keep.cancelled)))
    terms = msgspec.structs.replace(draft.terms, tags=(*draft.terms.tags, tag_of(name)))
    return msgspec.structs.replace(draft, id="", keep=longer, terms=terms)


def published(known: Record | None, plan: Plan, draft: Draft, now: int) -> Record:
    """Decide what a schedule is after a process has published it. One that ticks otherwise than before begins anew."""
    if known is None:
        return Record(plan.timing, draft, now, now, plan.catch_up)
    fresh = msgspec.structs.replace(known, draft=draft, catch_up=plan.catch_up)
    if plan.timing == known.timing:
        return fresh
    return msgspec.structs.replace(fresh, timing=plan.timing, last_us=max(now, known.last_us), seen_us=now)


def due(record: Record, now: int) -> Due:
    """Decide which ticks are to be enqueued at ``now``, by the store's clock."""
    if record.paused or now <= record.last_us:  # the clock may stand still, having been set back
        return Due([], record.last_us)
    attended = now - record.seen_us <= LATE
    most = MOST_MISSED if attended or record.catch_up is CatchUp.ALL else 1
    ticks = record.timing.newest(record.last_us, now, most)
    if not ticks:
        return Due([], record.last_us)
    last = ticks[-1]
    if not attended and record.catch_up is CatchUp.NONE and now - last > LATE:
        ticks = []
    return Due(ticks, last)


def advanced(record: Record, done: Due, now: int) -> Record:
    """Say what a schedule is once its due ticks were enqueued."""
    tick = done.ticks[-1] if done.ticks else record.tick_us
    return msgspec.structs.replace(record, last_us=done.last_us, seen_us=now, tick_us=tick)


def switched(record: Record, now: int, *, paused: bool, by: str | None) -> Record:
    """Pause, or resume: what came while it was paused is not made up for."""
    if paused:
        return msgspec.structs.replace(record, paused=True, by=by)
    passed = record.timing.newest(record.last_us, now, 1) if record.paused else []
    last = passed[-1] if passed else record.last_us
    return msgspec.structs.replace(record, paused=False, by=None, last_us=last, seen_us=now)


def key_of(name: str, tick: int) -> str:
    """Make the idempotency key of a tick: one job for each, whoever enqueues it, and however often."""
    time = time_of(tick)
    return f"schedule:{name}:{tick}" if time is None else f"schedule:{name}:{_iso(time)}"


def _iso(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")


def drafts_at(record: Record, name: str, ticks: list[int], ids: list[str]) -> list[Draft]:
    """Make the jobs of ticks."""
    return [
        msgspec.structs.replace(record.draft, id=id, idempotency_key=key_of(name, tick), scheduled_us=tick)
        for tick, id in zip(ticks, ids, strict=True)
    ]


def info_of(name: str, record: Record, now: int) -> ScheduleInfo:
    """Show a schedule."""
    draft = record.draft
    return ScheduleInfo(
        name,
        draft.task,
        draft.queue,
        draft.params_json,
        record.timing,
        record.catch_up,
        record.paused,
        record.by,
        record.last_us,
        record.tick_us,
        record.seen_us,
        now,
    )


def arguments(params: Any) -> Mapping[str, Any]:
    """Check the arguments that a schedule calls its task with."""
    if params is None:
        return {}
    if not isinstance(params, Mapping):
        raise InvalidRequest([Problem("params", "must name the arguments, as in params={'days': 7}")])
    return params
