"""What a cluster answers while a master does not: what may have been done is never called undone."""

from typing import Any

import pytest

from dibs.domain import transitions
from dibs.domain.errors import StoreUnavailable
from dibs.domain.job import Outcome, Status
from dibs.stores.redis import ClusterStore
from dibs.stores.redis.cluster.nodes import Nodes
from dibs.stores.redis.cluster.shards import TAGS, home, slot_of
from dibs.testing.conformance.builders import claim, completed, enqueue, new_job, read, settle


async def test_a_settle_whose_reply_was_lost_is_told_and_not_asked_for_again(
    store: ClusterStore, other: ClusterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was done, and redriven since: asked for again, its holder would be told that it was never done."""
    queues = {home(f"q{n}"): f"q{n}" for n in range(100)}
    await enqueue(store, new_job("here", queue=queues[0]), new_job("there", queue=queues[1]))
    jobs = {job.id: job for _ in range(2) for job in await claim(store)}
    call, lost = Nodes.call, slot_of(TAGS[1])

    async def without_a_reply(self: Nodes, slot: int, *args: Any) -> Any:
        answer = await call(self, slot, *args)
        if slot == lost and self is store._sites.here().nodes:
            monkeypatch.undo()
            assert await settle(other, transitions.redrive("there")) == [Outcome.APPLIED]
            raise StoreUnavailable("no answer came")
        return answer

    monkeypatch.setattr(Nodes, "call", without_a_reply)
    with pytest.raises(StoreUnavailable, match="no answer came"):
        await settle(store, completed(jobs["here"]), completed(jobs["there"]))
    assert (await read(store, "here")).status is Status.COMPLETED
    assert [event.event for event in await store.log("there")] == ["enqueued", "claimed", "completed", "redriven"]
