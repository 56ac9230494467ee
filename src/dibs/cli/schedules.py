"""``dibs schedules``: see what ticks when, pause, resume, and run now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import cyclopts
import msgspec
from cyclopts import Parameter

from dibs.cli.load import existing
from dibs.domain.checks import check_integer
from dibs.domain.errors import InvalidRequest

if TYPE_CHECKING:
    from dibs.domain.schedule import ScheduleInfo

Store = Annotated[str | None, Parameter(help="The store's URL.")]
Json = Annotated[bool, Parameter(help="Print as JSON.", negative=())]
By = Annotated[str | None, Parameter(help="Who does it; shown in the list.")]

schedules = cyclopts.App(name="schedules", help="List, pause, resume and run schedules.")


@schedules.default
@schedules.command(name="list")
def list_(
    *,
    next_: Annotated[int, Parameter(name="--next", help="How many of the next ticks to show.")] = 1,
    store: Store = None,
    json: Json = False,
) -> int:
    """List the schedules that workers have made known, with their next ticks."""
    if problems := check_integer("next", next_, 1, 1000):
        raise InvalidRequest(problems)
    with existing(store).sync as app:
        found = app.schedules()
    if json:
        _print({"schedules": [_shown(info, next_) for info in found]})
        return 0
    for info in found:
        print(_line(info, next_))
    if not found:
        print("there are no schedules; a worker makes those of its app known: see @app.schedule")
    return 0


@schedules.command
def pause(name: str, *, by: By = None, store: Store = None, json: Json = False) -> int:
    """Let a schedule not tick until it is resumed."""
    with existing(store).sync as app:
        info = app.pause_schedule(name, by=by)
    return _changed(info, f"paused {name}; workers heed it within seconds", json=json)


@schedules.command
def resume(name: str, *, by: By = None, store: Store = None, json: Json = False) -> int:
    """Let a schedule tick again. What it would have done while it was paused is not made up for."""
    with existing(store).sync as app:
        info = app.resume_schedule(name, by=by)
    return _changed(info, f"resumed {name}; next {info.next_at:%Y-%m-%d %H:%M:%S}Z", json=json)


@schedules.command
def run(name: str, *, store: Store = None, json: Json = False) -> int:
    """Enqueue the job of a schedule now, beside its ticks."""
    with existing(store).sync as app:
        job = app.run_schedule(name)
    if json:
        _print({"schedule": name, "id": job.id})
    else:
        print(job.id)
    return 0


def _changed(info: ScheduleInfo, said: str, *, json: bool) -> int:
    if json:
        _print(_shown(info, 1))
    else:
        print(said)
    return 0


def _line(info: ScheduleInfo, number: int) -> str:
    later = "" if info.paused else "; next " + ", ".join(f"{time:%Y-%m-%d %H:%M:%S}Z" for time in info.next(number))
    by = f" by {info.paused_by}" if info.paused_by else ""
    last = "never" if info.last_tick_at is None else f"{info.last_tick_at:%Y-%m-%d %H:%M:%S}Z"
    task = "" if info.task == info.name else f" ({info.task})"
    return f"{info.name}{task}: {info.timing}; {info.status}{by}; last {last}{later}"


def _shown(info: ScheduleInfo, number: int) -> dict[str, Any]:
    return {
        "name": info.name,
        "task_type": info.task,
        "queue": info.queue,
        "params": info.params,
        "cron": info.cron,
        "every_seconds": info.every,
        "tz": info.tz,
        "catch_up": info.catch_up,
        "status": info.status,
        "paused_by": info.paused_by,
        "last_tick_at": info.last_tick_at,
        "next": [] if info.paused else info.next(number),
    }


def _print(value: Any) -> None:
    print(msgspec.json.encode(value).decode())
