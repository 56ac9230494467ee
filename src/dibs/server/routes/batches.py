"""Batches: how far they have come, and what is enqueued when they have ended."""

from __future__ import annotations

from dibs.domain.batch import MAX_ID, check_batch_id
from dibs.domain.checks import MAX_KEY
from dibs.domain.errors import Invalid, InvalidRequest, NotFound, Problem
from dibs.server.route import Call, Reply, Route
from dibs.server.routes.enqueue import usual_queue
from dibs.wire.asked import Nothing, QueueQuery
from dibs.wire.batches import Batch, Looked, Sealed, Sealing, batch_of
from dibs.wire.taken import new_job_of


async def batch(call: Call) -> Reply:
    """Say how far a batch has come, by looking at its jobs; those that the caller may see."""
    id = _id(call, MAX_KEY)
    asked: QueueQuery = call.query
    info = await call.broker.batch(id, queue=call.caller.listable(asked.queue))
    if not info.total:
        raise NotFound(f"there is no batch {id!r}", hint="Its jobs may have been pruned after their retention time.")
    return Reply(batch_of(info))


async def seal(call: Call) -> Reply:
    """Have a job enqueued when all jobs of a batch have ended. Whoever may enqueue it may have it enqueued then."""
    asked: Sealing = call.body
    id = _id(call, MAX_ID)
    try:
        last = new_job_of(asked.on_end)
    except Invalid as error:
        raise InvalidRequest([Problem(f"on_end.{each.field}", each.message) for each in error.problems]) from None
    call.caller.allow([last.queue or usual_queue(call, last.task)])
    await call.broker.seal(id, last)
    return Reply(Sealed(batch_id=id, message="Batch sealed"))


async def end(call: Call) -> Reply:
    """Enqueue the last jobs of batches that have ended: what is enqueued was sealed by someone who may."""
    await call.broker.end_batches()
    return Reply(Looked(message="Batches were looked at"))


def _id(call: Call, most: int) -> str:
    check_batch_id(call.path["id"], field="id", most=most)
    return call.path["id"]


ROUTES = (
    Route(
        "POST",
        "/api/batches/end",
        end,
        "Enqueue the last jobs of batches that have ended now, rather than with the next round of maintenance.",
        scope="work",
        bodies=(Nothing,),
        may_be_empty=True,
        answers={200: Looked},
    ),
    Route(
        "POST",
        "/api/batches/{id}/seal",
        seal,
        "Have a job enqueued, once, when all jobs of a batch have ended.",
        scope="produce",
        bodies=(Sealing,),
        answers={200: Sealed},
        refuses=(413,),
    ),
    Route(
        "GET",
        "/api/batches/{id}",
        batch,
        "Say how far a batch has come.",
        scope="read",
        query=QueueQuery,
        answers={200: Batch},
        refuses=(404,),
    ),
)
