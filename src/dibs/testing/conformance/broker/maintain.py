"""maintain: leases that ran out are reaped, finished jobs are pruned, by any number at once."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from dibs.domain.job import Status
from dibs.testing.conformance.broker.base import TUNED, Suite
from dibs.testing.conformance.broker.verbs import (
    claim,
    complete,
    enqueue,
    enqueue_some,
    events,
    eventually,
    fail,
    read,
    settle,
    take,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dibs.broker.protocol import Broker
    from dibs.clock import FakeClock

DAY = 86_400.0


@asynccontextmanager
async def maintained(broker: Broker, number: int = 1) -> AsyncIterator[None]:
    """Have the store looked after meanwhile."""
    tasks = [asyncio.create_task(broker.maintain()) for _ in range(number)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class MaintainSuite(Suite):
    """Looking after what no worker looks after any more."""

    async def test_maintain_reaps_within_five_seconds(self, broker: Broker, clock: FakeClock) -> None:
        job = await take(broker, claim_lease=10)
        async with maintained(broker):
            clock.advance(9.9)
            began = clock.now()

            async def reaped() -> bool:
                return (await read(broker, job.id)).status is Status.PENDING

            await eventually(reaped, clock, 0.05)
        assert clock.now() - began <= 30_000_000  # of fake time, which runs ahead of a slow machine
        assert await events(broker, job.id) == ["enqueued", "claimed", "expired"]

    async def test_maintain_ends_a_poison_job(self, broker: Broker, clock: FakeClock) -> None:
        poison = await enqueue(broker, max_attempts=2)
        async with maintained(broker):

            async def dead() -> bool:
                await claim(broker, "victim", lease=5)
                return (await read(broker, poison.id)).status is Status.FAILED

            await eventually(dead, clock, 1)
        after = await read(broker, poison.id)
        assert (after.attempts, after.fence) == (2, 2)

    async def test_maintain_by_many_at_once(self, broker: Broker, clock: FakeClock) -> None:
        await enqueue_some(broker, 50, max_attempts=1)
        held = await claim(broker, lease=10)
        async with maintained(broker, 5):
            clock.advance(10)

            async def dead() -> bool:
                return (await broker.counts()).failed == len(held)

            await eventually(dead, clock)
        for job in held:
            assert await events(broker, job.id) == ["enqueued", "claimed", "expired"]
        assert (await broker.verify()).ok

    async def test_maintain_prunes_what_has_been_kept_long_enough(self, broker: Broker, clock: FakeClock) -> None:
        done, keyed, dead, stopped = [
            await take(broker, idempotency_key=key, params=place) for place, key in enumerate([None, "k", None, None])
        ]
        await settle(broker, complete(done), complete(keyed), fail(dead, retryable=False))
        await broker.cancel([stopped.id])
        kept = [await enqueue(broker), await take(broker, claim_lease=90 * DAY)]

        async def left() -> set[str]:
            everything = [done, keyed, dead, stopped, *kept]
            return {job.id for job in everything if await broker.get(job.id) is not None}

        async with maintained(broker):
            for days, gone in ((1, {done.id, stopped.id}), (6, {keyed.id}), (23, {dead.id})):
                clock.advance(days * DAY - 600)
                before = await left()
                assert gone <= before

                async def pruned(expected: set[str] = before - gone) -> bool:
                    return await left() == expected

                clock.advance(600)
                await eventually(pruned, clock, 1)
        assert await left() == {job.id for job in kept}
        assert not (await enqueue(broker, idempotency_key="k")).was_duplicate

    async def test_maintain_prunes_by_the_queue_s_retention(self, broker: Broker, clock: FakeClock) -> None:
        done, stopped, dead = [await take(broker, queue=TUNED) for _ in range(3)]
        await settle(broker, complete(done), fail(dead, retryable=False))
        await broker.cancel([stopped.id])
        gone: list[str] = []

        async def all_gone() -> bool:
            for job in (done, stopped, dead):
                if job.id not in gone and await broker.get(job.id) is None:
                    gone.append(job.id)
            return len(gone) == 3

        async with maintained(broker):
            await eventually(all_gone, clock, 2)
        assert gone == [done.id, stopped.id, dead.id]  # after 100, 200 and 300 seconds

    async def test_queues_tell_how_fast_they_are_worked_off(self, broker: Broker, clock: FakeClock) -> None:
        for queue in ("a", "b"):
            await enqueue_some(broker, 5, queue=queue)

        async def rates() -> list[int]:
            return [info.claimed_per_minute for info in await broker.queues()]

        assert await rates() == [0, 0]
        async with maintained(broker):
            await claim(broker, queues=["a"], limit=3)
            await claim(broker, queues=["b"], limit=1)
            await claim(broker, queues=["a"], limit=1)

            async def told() -> bool:
                return await rates() == [4, 1]

            async def over() -> bool:
                return await rates() == [0, 0]

            clock.advance(10)
            await eventually(told, clock, 0.05)
            clock.advance(60)
            await eventually(over, clock, 0.05)

    async def test_maintain_prunes_in_steps(self, broker: Broker, clock: FakeClock) -> None:
        await enqueue_some(broker, 1000, retention=5)
        await broker.settle([complete(job) for job in await claim(broker, limit=1000)])
        clock.advance(5)
        async with maintained(broker):

            async def none_left() -> bool:
                return (await broker.counts()).completed == 0

            await eventually(none_left, clock, 1)
