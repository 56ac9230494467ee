"""pause and resume: a queue that hands out nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.domain.job import Outcome
from dibs.testing.conformance.broker.base import Suite
from dibs.testing.conformance.broker.verbs import (
    AT_ONCE,
    claim,
    complete,
    enqueue,
    ids,
    read,
    reap,
    release,
    settle,
    take,
)

if TYPE_CHECKING:
    from dibs.broker.protocol import Broker
    from dibs.clock import FakeClock


class PauseSuite(Suite):
    """Pausing."""

    async def test_pause_lets_a_queue_hand_out_nothing(self, broker: Broker) -> None:
        job, other, below = [await enqueue(broker, queue=queue) for queue in ("a", "b", "a/b")]
        await broker.pause("a", by="olga")

        assert await claim(broker, queues=["a"]) == []
        assert sorted(ids(await claim(broker))) == sorted([other.id, below.id])
        await broker.resume("a", by="olga")
        assert ids(await claim(broker)) == [job.id]

    async def test_pause_twice_and_resume_twice(self, broker: Broker) -> None:
        job = await enqueue(broker)
        for _ in range(2):
            await broker.pause("default")
        assert await claim(broker) == []
        for _ in range(2):
            await broker.resume("default")
        assert ids(await claim(broker)) == [job.id]

    async def test_pause_takes_in_jobs_and_lets_holders_finish(self, broker: Broker) -> None:
        held, given_back = await take(broker), await take(broker)
        await broker.pause("default")
        late = await enqueue(broker)

        assert await settle(broker, complete(held), release(given_back)) == [Outcome.APPLIED] * 2
        assert await claim(broker) == []
        await broker.resume("default")
        assert ids(await claim(broker)) == [given_back.id, late.id]

    async def test_pause_does_not_keep_the_dead_from_being_reaped(self, broker: Broker, clock: FakeClock) -> None:
        job = await take(broker, claim_lease=10, retry=AT_ONCE)
        await broker.pause("default")
        clock.advance(10)
        await reap(broker)

        assert (await read(broker, job.id)).status == "pending"
        assert await claim(broker) == []

    async def test_pause_is_seen_among_the_queues(self, broker: Broker) -> None:
        await enqueue(broker, queue="a")
        await broker.pause("a")
        await broker.pause("empty")

        assert {info.queue: info.paused for info in await broker.queues()} == {"a": True, "empty": True}
        await broker.resume("empty")
        await broker.resume("a")
        assert {info.queue: info.paused for info in await broker.queues()} == {"a": False}
