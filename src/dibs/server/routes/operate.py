"""What an operator does: cancel, retry, the dead letter, queues. The log says whose key it was."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dibs.broker.intake import check_change
from dibs.domain.job import Filter
from dibs.server.route import Call, Reply, Route
from dibs.wire.answered import Changed, ChangedMany, Queues, Switched
from dibs.wire.asked import Cancelling, Changing, Operating
from dibs.wire.show import queue_of, task_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from dibs.broker.protocol import Changes
    from dibs.wire.asked import TaskFilter

# One job


async def cancel(call: Call) -> Reply:
    """Stop a job that has not ended."""
    id = await _own(call)
    await call.broker.cancel([id], by=call.caller.actor(call.body.by))
    return await _changed(call, id, "Task cancelled")


async def retry(call: Call) -> Reply:
    """Run a job again that has ended."""
    id = await _own(call)
    await call.broker.redrive([id], by=call.caller.actor(call.body.by))
    return await _changed(call, id, "Task will run again")


async def _own(call: Call) -> str:
    id = call.path["id"]
    if call.caller.queues is not None:
        call.caller.own(await call.broker.get(id), id)
    return id


async def _changed(call: Call, id: str, message: str) -> Reply:
    job = await call.broker.get(id)
    return Reply(Changed(task=None if job is None else task_of(job), message=message))


# Many


async def cancel_many(call: Call) -> Reply:
    """Stop jobs that have not ended. One alone that cannot be stopped is refused; of several it is counted."""
    asked: Cancelling = call.body
    await _own_all(call, asked.ids)
    return _counted(await call.broker.cancel(asked.ids, by=call.caller.actor(asked.by)))


async def redrive(call: Call) -> Reply:
    """Run finished jobs again."""
    return await _change(call, call.broker.redrive)


async def purge(call: Call) -> Reply:
    """Remove finished jobs."""
    return await _change(call, call.broker.purge)


async def _change(call: Call, change: Callable[..., Awaitable[Changes]]) -> Reply:
    asked: Changing = call.body
    ids = asked.ids or ()
    where = None if asked.filter is None else filter_of(asked.filter)
    check_change(ids, where)
    if where is None:
        await _own_all(call, ids)
    elif call.caller.queues is not None:
        where = filter_of(asked.filter, call.caller.listable(where.queue))
    return _counted(await change(ids, where=where, dry_run=asked.dry_run, by=call.caller.actor(asked.by)))


async def _own_all(call: Call, ids: Sequence[str]) -> None:
    """Refuse a key that is for some queues, if one of the jobs is of another: as if that job were not there."""
    if call.caller.queues is not None:
        jobs = await asyncio.gather(*(call.broker.get(id) for id in ids))
        for id, job in zip(ids, jobs, strict=True):
            if job is not None:
                call.caller.own(job, id)


def filter_of(asked: TaskFilter | None, queue: str | None = None) -> Filter:
    """Turn a filter of the wire into the broker's."""
    if asked is None:
        return Filter(queue=queue)
    return Filter(
        status=asked.status or None,
        queue=queue or asked.queue,
        task=asked.task_type,
        worker_id=asked.worker_id,
        batch_id=asked.batch_id,
        tag=asked.tag,
        q=asked.q,
        priority_min=asked.priority_min,
        priority_max=asked.priority_max,
    )


def _counted(changes: Changes) -> Reply:
    return Reply(
        ChangedMany(
            matched=changes.matched,
            changed=changes.changed,
            repeated=changes.repeated,
            refused=changes.refused,
            missing=changes.missing,
            conflicts=changes.conflicts,
            dry_run=changes.dry_run,
        )
    )


# Queues


async def queues(call: Call) -> Reply:
    """List the queues; those that the caller may see."""
    found = await call.broker.queues()
    now = call.state.app.runtime.clock.now()
    return Reply(Queues(queues=[queue_of(info, now) for info in found if call.caller.sees(info.queue)]))


async def pause(call: Call) -> Reply:
    """Let a queue hand out nothing."""
    queue = _queue(call)
    await call.broker.pause(queue, by=call.caller.actor(call.body.by))
    return Reply(Switched(queue=queue, paused=True, message="Queue paused"))


async def resume(call: Call) -> Reply:
    """Let a queue hand out jobs again."""
    queue = _queue(call)
    await call.broker.resume(queue, by=call.caller.actor(call.body.by))
    return Reply(Switched(queue=queue, paused=False, message="Queue resumed"))


def _queue(call: Call) -> str:
    queue = call.path["queue"]
    call.caller.allow([queue])
    return queue


ROUTES = (
    Route(
        "POST",
        "/api/tasks/cancel",
        cancel_many,
        "Stop jobs that have not ended, whoever holds them.",
        scope="produce",
        bodies=(Cancelling,),
        answers={200: ChangedMany},
        refuses=(404, 409),
    ),
    Route(
        "POST",
        "/api/tasks/{id}/cancel",
        cancel,
        "Stop a job that has not ended, whoever holds it.",
        scope="produce",
        bodies=(Operating,),
        may_be_empty=True,
        answers={200: Changed},
        refuses=(404, 409),
    ),
    Route(
        "POST",
        "/api/tasks/{id}/retry",
        retry,
        "Run a job again that has ended.",
        scope="produce",
        bodies=(Operating,),
        may_be_empty=True,
        answers={200: Changed},
        refuses=(404, 409),
    ),
    Route(
        "POST",
        "/api/dead/redrive",
        redrive,
        "Run finished jobs again: those named, or those that match.",
        scope="admin",
        bodies=(Changing,),
        answers={200: ChangedMany},
        refuses=(404, 409),
    ),
    Route(
        "POST",
        "/api/dead/purge",
        purge,
        "Remove finished jobs: those named, or those that match.",
        scope="admin",
        bodies=(Changing,),
        answers={200: ChangedMany},
        refuses=(404, 409),
    ),
    Route("GET", "/api/queues", queues, "List the queues.", scope="read", answers={200: Queues}),
    Route(
        "POST",
        "/api/queues/{queue:path}/pause",
        pause,
        "Let a queue hand out nothing.",
        scope="admin",
        bodies=(Operating,),
        may_be_empty=True,
        answers={200: Switched},
    ),
    Route(
        "POST",
        "/api/queues/{queue:path}/resume",
        resume,
        "Let a queue hand out jobs again.",
        scope="admin",
        bodies=(Operating,),
        may_be_empty=True,
        answers={200: Switched},
    ),
)
