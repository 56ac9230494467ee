"""Workers say that they are alive, and that they leave."""

from __future__ import annotations

from dibs.broker.protocol import BEAT_EVERY
from dibs.domain.job import Outcome
from dibs.server.route import Call, Reply, Route
from dibs.server.routes.settle import extension_of, own_ids, ref_of
from dibs.wire.answered import Beaten, Shutdown, Workers
from dibs.wire.asked import WorkerBeat, WorkerShutdown
from dibs.wire.show import worker_of


async def heartbeat(call: Call) -> Reply:
    """Record a worker, and keep exactly the claims that it names."""
    asked: WorkerBeat = call.body
    own = await own_ids(call, asked.claims)
    mine = [item for item in asked.claims if item.id in own]
    every = BEAT_EVERY if asked.every_seconds is None else asked.every_seconds
    kept = await call.broker.beat(
        asked.worker_id, [extension_of(item) for item in mine], metadata=asked.metadata, every=every
    )
    call.state.metrics.extended(kept)
    outcomes = dict(zip([item.id for item in mine], kept, strict=True))
    return Reply(
        Beaten(
            extended=[id for id, outcome in outcomes.items() if outcome is Outcome.APPLIED],
            lost=[
                item.id
                for item in asked.claims
                if outcomes.get(item.id, Outcome.LOST) not in {Outcome.APPLIED, Outcome.BUSY}
            ],
            next_heartbeat_in=every,
        )
    )


async def shutdown(call: Call) -> Reply:
    """Give back exactly the claims that are named, and note that the worker has left."""
    asked: WorkerShutdown = call.body
    own = await own_ids(call, asked.claims)
    mine = [ref_of(item) for item in asked.claims if item.id in own]
    written = await call.broker.retire(call.path["id"], mine)
    call.state.metrics.settled(answer.outcome for answer in written)
    released = {
        ref.id
        for ref, answer in zip(mine, written, strict=True)
        if answer.outcome in {Outcome.APPLIED, Outcome.REPEATED}
    }
    return Reply(
        Shutdown(
            released=[item.id for item in asked.claims if item.id in released],
            lost=[item.id for item in asked.claims if item.id not in released],
            message="Worker is inactive",
        )
    )


async def workers(call: Call) -> Reply:
    """List the workers."""
    call.caller.need_all_queues()
    return Reply(Workers(workers=[worker_of(info) for info in await call.broker.workers()]))


ROUTES = (
    Route(
        "POST",
        "/api/workers/heartbeat",
        heartbeat,
        "Record a worker, keep exactly these claims, and name the lost.",
        scope="work",
        bodies=(WorkerBeat,),
        answers={200: Beaten},
        refuses=(413,),
    ),
    Route(
        "POST",
        "/api/workers/{id}/shutdown",
        shutdown,
        "Give back exactly these claims, and mark the worker as inactive.",
        scope="work",
        bodies=(WorkerShutdown,),
        may_be_empty=True,
        answers={200: Shutdown},
    ),
    Route("GET", "/api/workers", workers, "List the workers.", scope="read", answers={200: Workers}),
)
