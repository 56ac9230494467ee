"""Schedules: workers publish and tick them, people look at them, pause, resume and run them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.domain.errors import Invalid, InvalidRequest, NotFound, Problem
from dibs.domain.schedule import CatchUp, Plan
from dibs.server.route import Call, Reply, Route
from dibs.server.routes.enqueue import usual_queue
from dibs.wire.answered import OneTask
from dibs.wire.asked import Nothing, Operating
from dibs.wire.schedules import (
    OneSchedule,
    Published,
    Publishing,
    Schedules,
    Ticked,
    Ticking,
    schedule_of,
    timing_asked,
)
from dibs.wire.show import task_of
from dibs.wire.taken import new_job_of

if TYPE_CHECKING:
    from dibs.domain.schedule import ScheduleInfo
    from dibs.wire.schedules import NewSchedule


async def publish(call: Call) -> Reply:
    """Make schedules known: whoever may enqueue a job may have it enqueued again and again."""
    asked: Publishing = call.body
    plans = _plans(asked.schedules)
    call.caller.allow(plan.job.queue or usual_queue(call, plan.job.task) for plan in plans)
    if call.caller.queues is not None:  # one of that name may be another's
        await _own(call, {plan.name for plan in plans})
    await call.broker.publish(plans)
    return Reply(Published(published=len(plans)))


def _plans(asked: list[NewSchedule]) -> list[Plan]:
    plans: list[Plan] = []
    problems: list[Problem] = []
    for place, one in enumerate(asked):
        try:
            plans.append(Plan(one.name, timing_asked(one), new_job_of(one.task), CatchUp(one.catch_up)))
        except Invalid as error:
            problems += [Problem(f"schedules[{place}].{each.field}", each.message) for each in error.problems]
    if problems:
        raise InvalidRequest(problems)
    return plans


async def tick(call: Call) -> Reply:
    """Enqueue what is due. What it enqueues was published by someone who may."""
    asked: Ticking = call.body
    if call.caller.queues is not None:
        await _own(call, set(asked.names))
    ticked = await call.broker.tick(asked.names)
    return Reply(Ticked(enqueued=ticked.enqueued, next_in_seconds=ticked.next_in, unknown=list(ticked.unknown)))


async def schedules(call: Call) -> Reply:
    """List the schedules; those that the caller may see."""
    found = await call.broker.schedules()
    return Reply(Schedules(schedules=[schedule_of(info) for info in found if call.caller.sees(info.queue)]))


async def pause(call: Call) -> Reply:
    """Let a schedule not tick."""
    name = await _named(call)
    return _switched(await call.broker.pause_schedule(name, by=call.caller.actor(call.body.by)), "Schedule paused")


async def resume(call: Call) -> Reply:
    """Let a schedule tick again."""
    name = await _named(call)
    return _switched(await call.broker.resume_schedule(name, by=call.caller.actor(call.body.by)), "Schedule resumed")


def _switched(info: ScheduleInfo, message: str) -> Reply:
    return Reply(OneSchedule(schedule=schedule_of(info), message=message))


async def run(call: Call) -> Reply:
    """Enqueue the job of a schedule now."""
    return Reply(OneTask(task=task_of(await call.broker.run_schedule(await _named(call)))), 201)


async def _named(call: Call) -> str:
    name = call.path["name"]
    if call.caller.queues is not None:
        visible = {info.name for info in await call.broker.schedules() if call.caller.sees(info.queue)}
        if name not in visible:
            raise NotFound(f"there is no schedule {name!r}")
    return name


async def _own(call: Call, names: set[str]) -> None:
    """Refuse a key that is for some queues, if one of the schedules enqueues to another."""
    call.caller.allow(info.queue for info in await call.broker.schedules() if info.name in names)


ROUTES = (
    Route(
        "POST",
        "/api/schedules",
        publish,
        "Make schedules known, as a worker's code defines them.",
        scope="produce",
        bodies=(Publishing,),
        answers={200: Published},
        refuses=(413,),
    ),
    Route(
        "POST",
        "/api/schedules/tick",
        tick,
        "Enqueue what is due of these schedules, each tick once.",
        scope="work",
        bodies=(Ticking,),
        answers={200: Ticked},
    ),
    Route("GET", "/api/schedules", schedules, "List the schedules.", scope="read", answers={200: Schedules}),
    *(
        Route(
            "POST",
            f"/api/schedules/{{name:path}}/{verb}",
            work,
            summary,
            scope="admin",
            bodies=(Operating,),
            may_be_empty=True,
            answers={200: OneSchedule},
            refuses=(404,),
        )
        for verb, work, summary in (
            ("pause", pause, "Let a schedule not tick."),
            ("resume", resume, "Let a schedule tick again, from now on."),
        )
    ),
    Route(
        "POST",
        "/api/schedules/{name:path}/run",
        run,
        "Enqueue the job of a schedule now, beside its ticks.",
        scope="produce",
        bodies=(Nothing,),
        may_be_empty=True,
        answers={201: OneTask},
        refuses=(404,),
    ),
)
