"""POST /api/tasks/claim, and of one job by its id."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from dibs.broker.protocol import Ask
from dibs.domain.errors import Problem
from dibs.domain.job import Order
from dibs.server import polling
from dibs.server.problems import Empty, Misfit
from dibs.server.route import Call, Reply, Route
from dibs.wire.answered import Claimed
from dibs.wire.asked import MAX_WAIT, Claiming, ClaimingOne
from dibs.wire.show import task_of

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        wait=asked.wait_seconds or 0,
    )


async def claim(call: Call) -> Reply:
    """Claim what is next; 404 if there is nothing."""
    asked: Claiming = call.body
    preferred = preferred_wait(call.headers)
    if preferred is not None and asked.wait_seconds is None:
        asked = msgspec.structs.replace(asked, wait_seconds=float(preferred))
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
    applied = () if preferred is None else ((b"preference-applied", b"wait=%d" % (asked.wait_seconds or 0)),)
    return Reply(Claimed(task=tasks[0], tasks=UNSET if asked.limit is None else tasks), headers=applied)


def preferred_wait(headers: Mapping[bytes, bytes]) -> int | None:
    """Read ``Prefer: wait=N`` (RFC 7240); what else is preferred is not for us. The field wait_seconds goes first."""
    for preference in headers.get(b"prefer", b"").split(b","):
        name, _, value = preference.partition(b";")[0].partition(b"=")
        if name.strip().lower() == b"wait":
            text = value.strip().strip(b'"')
            if not re.fullmatch(rb"[0-9]{1,3}", text) or int(text) > MAX_WAIT:
                raise Misfit([Problem("Prefer", f"wait must be a whole number of seconds, up to {MAX_WAIT}")])
            return int(text)
    return None


async def claim_one(call: Call) -> Reply:
    """Claim the job that is named; 409 says why it cannot be."""
    asked: ClaimingOne = call.body
    id = call.path["id"]
    if call.caller.queues is not None:
        call.caller.own(await call.broker.get(id), id)
    left = asked.max_attempts_remaining
    ask = Ask(
        worker_id=asked.worker_id,
        id=id,
        queues=call.caller.claimable(asked.queues),
        tasks=asked.task_types,
        min_attempts_left=1 if left is None else left + 1,
        lease=asked.lease_seconds,
    )
    [job] = await polling.claim(call, ask)
    return Reply(Claimed(task=task_of(job, token=True)))


_CLAIMED = ("settle_complete", "settle_heartbeat", "settle_release", "look_get", "operate_cancel")

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
        leads_to=_CLAIMED,
        headers={"Prefer": "`wait=N`: the same as wait_seconds, which goes first."},
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
        leads_to=_CLAIMED,
    ),
)
