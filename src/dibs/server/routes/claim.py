"""POST /api/tasks/claim, and of one job by its id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from dibs.broker.protocol import Ask
from dibs.domain.job import Order
from dibs.server import polling
from dibs.server.problems import Empty
from dibs.server.route import Call, Reply, Route
from dibs.wire.answered import Claimed, task_of
from dibs.wire.asked import Claiming, ClaimingOne

if TYPE_CHECKING:
    from dibs.server.auth import Caller

_ORDERS = {
    ("priority", None): Order.PRIORITY,
    ("priority", "desc"): Order.PRIORITY,
    ("priority", "asc"): Order.PRIORITY_ASC,
    ("created_at", None): Order.CREATED_AT,
    ("created_at", "asc"): Order.CREATED_AT,
    ("created_at", "desc"): Order.CREATED_AT_DESC,
}


def ask_of(asked: Claiming, caller: Caller) -> Ask:
    """Turn what the wire says into what the broker takes."""
    left = asked.max_attempts_remaining
    return Ask(
        worker_id=asked.worker_id,
        limit=1 if asked.limit is None else asked.limit,
        queues=caller.claimable(asked.queues),
        tasks=asked.task_types,
        min_attempts_left=1 if left is None else left + 1,
        order=_ORDERS.get((asked.sort_by, asked.sort_order), Order.RANDOM),
        lease=asked.lease_seconds,
        wait=asked.wait_seconds,
    )


async def claim(call: Call) -> Reply:
    """Claim what is next; 404 if there is nothing."""
    asked: Claiming = call.body
    jobs = await polling.claim(call, ask_of(asked, call.caller))
    if not jobs:
        raise Empty(
            {
                "task_types": asked.task_types,
                "queues": asked.queues,
                "max_attempts_remaining": asked.max_attempts_remaining,
            }
        )
    tasks = [task_of(job, token=True) for job in jobs]
    return Reply(Claimed(task=tasks[0], tasks=UNSET if asked.limit is None else tasks))


async def claim_one(call: Call) -> Reply:
    """Claim the job that is named; 409 says why it cannot be."""
    asked: ClaimingOne = call.body
    id = call.path["id"]
    if call.caller.queues is not None:
        call.caller.own(await call.broker.get(id), id)
    [job] = await polling.claim(call, Ask(worker_id=asked.worker_id, id=id, lease=asked.lease_seconds))
    return Reply(Claimed(task=task_of(job, token=True)))


ROUTES = (
    Route(
        "POST",
        "/api/tasks/claim",
        claim,
        "Claim due jobs, waiting for the first if asked to.",
        scope="work",
        bodies=(Claiming,),
        answers={200: Claimed},
        refuses=(404,),
    ),
    Route(
        "POST",
        "/api/tasks/{id}/claim",
        claim_one,
        "Claim this job.",
        scope="work",
        bodies=(ClaimingOne,),
        answers={200: Claimed},
        refuses=(404, 409),
    ),
)
