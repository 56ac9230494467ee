"""Schedules on the wire: what is asked, what is answered, and both to and from the domain."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct, structs

from dibs.domain.errors import InvalidRequest, Problem
from dibs.domain.job import time_of
from dibs.domain.retry import micros
from dibs.domain.schedule import MOST_SCHEDULES, CatchUp, ScheduleInfo
from dibs.domain.schedule_times import Timing, timing_of
from dibs.wire.answered import Answer
from dibs.wire.asked import Asked, Name, NewTask, Seconds
from dibs.wire.read import us_of

SHOWN = 5
"""How many of the next ticks are shown."""


class NewSchedule(Asked, frozen=True, kw_only=True):
    """A schedule: its ``cron`` expression or its interval, and the job that each tick enqueues."""

    name: Name
    task: NewTask
    cron: str | None = None
    every_seconds: Seconds | None = None
    tz: str = "UTC"
    catch_up: Literal["last", "all", "none"] = "last"


class Publishing(Asked, frozen=True, kw_only=True):
    """Schedules to be made known, as the code of a worker defines them."""

    schedules: Annotated[list[NewSchedule], Meta(max_length=MOST_SCHEDULES)]


class Ticking(Asked, frozen=True, kw_only=True):
    """The schedules whose due ticks are to be enqueued."""

    names: Annotated[list[Name], Meta(min_length=1, max_length=MOST_SCHEDULES)]


class Schedule(Struct, frozen=True, kw_only=True):
    """One schedule. ``stale``: no process has looked after it for twenty minutes."""

    name: str
    task_type: str
    queue: str
    params: Raw
    cron: str | None
    every_seconds: float | None
    tz: str
    catch_up: Literal["last", "all", "none"]
    status: Literal["active", "paused", "stale"]
    paused: bool
    paused_by: str | None
    last_tick_at: datetime | None
    last_seen_at: datetime
    done_until: datetime
    next_at: datetime | None
    next: list[datetime]
    now: datetime


class Schedules(Answer, frozen=True, kw_only=True):
    """The schedules that are known, by name."""

    schedules: list[Schedule]


class OneSchedule(Answer, frozen=True, kw_only=True):
    """A schedule that was paused or resumed."""

    schedule: Schedule
    message: str


class Published(Answer, frozen=True, kw_only=True):
    """How many schedules were made known."""

    published: int


class Ticked(Answer, frozen=True, kw_only=True):
    """How many ticks were enqueued, when the next is due, and which of the names are not known."""

    enqueued: int
    next_in_seconds: float | None
    unknown: list[str]


def timing_asked(asked: NewSchedule) -> Timing:
    """Read when a schedule is to tick."""
    if asked.cron is not None and asked.every_seconds is None:
        return timing_of(asked.cron, asked.tz)
    if asked.every_seconds is not None and asked.cron is None:
        return timing_of(asked.every_seconds, asked.tz)
    raise InvalidRequest([Problem("cron", "give either cron or every_seconds, not both and not neither")])


def _time(us: int) -> datetime:
    time = time_of(us)
    assert time is not None  # noqa: S101  # for the type checker
    return time


def schedule_of(info: ScheduleInfo) -> Schedule:
    """Show a schedule."""
    status: Any = info.status
    return Schedule(
        name=info.name,
        task_type=info.task,
        queue=info.queue,
        params=Raw(info.params_json),
        cron=info.cron,
        every_seconds=info.every,
        tz=info.tz,
        catch_up=info.catch_up.value,
        status=status,
        paused=info.paused,
        paused_by=info.paused_by,
        last_tick_at=info.last_tick_at,
        last_seen_at=_time(info.seen_us),
        done_until=_time(info.last_us),
        next_at=info.next_at,
        next=info.next(SHOWN),
        now=_time(info.now_us),
    )


def schedule_info(shown: Schedule) -> ScheduleInfo:
    """Read a schedule."""
    every = None if shown.every_seconds is None else micros(shown.every_seconds)
    return ScheduleInfo(
        shown.name,
        shown.task_type,
        shown.queue,
        bytes(shown.params),
        Timing(cron=shown.cron, every_us=every, tz=shown.tz),
        CatchUp(shown.catch_up),
        shown.paused,
        shown.paused_by,
        us_of(shown.done_until),
        None if shown.last_tick_at is None else us_of(shown.last_tick_at),
        us_of(shown.last_seen_at),
        us_of(shown.now),
    )


def without_id(task: NewTask) -> NewTask:
    """Leave out the id that a job is sent with: each tick has its own."""
    return structs.replace(task, id=None)
