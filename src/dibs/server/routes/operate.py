"""Cancel and retry. The log says whose key it was."""

from __future__ import annotations

from dibs.server.route import Call, Reply, Route
from dibs.wire.answered import Changed, task_of
from dibs.wire.asked import Nothing


async def cancel(call: Call) -> Reply:
    """Stop a job that has not ended."""
    id = await _own(call)
    await call.broker.cancel([id], by=call.caller.name)
    return await _changed(call, id, "Task cancelled")


async def retry(call: Call) -> Reply:
    """Run a job again that has ended."""
    id = await _own(call)
    await call.broker.redrive([id], by=call.caller.name)
    return await _changed(call, id, "Task will run again")


async def _own(call: Call) -> str:
    id = call.path["id"]
    if call.caller.queues is not None:
        call.caller.own(await call.broker.get(id), id)
    return id


async def _changed(call: Call, id: str, message: str) -> Reply:
    job = await call.broker.get(id)
    return Reply(Changed(task=None if job is None else task_of(job), message=message))


ROUTES = (
    Route(
        "POST",
        "/api/tasks/{id}/cancel",
        cancel,
        "Stop a job that has not ended, whoever holds it.",
        scope="produce",
        bodies=(Nothing,),
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
        bodies=(Nothing,),
        may_be_empty=True,
        answers={200: Changed},
        refuses=(404, 409),
    ),
)
