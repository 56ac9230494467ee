"""claim: in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.domain.job import Order
from dibs.testing.conformance.broker.base import Suite
from dibs.testing.conformance.broker.verbs import (
    claim,
    claim_one,
    enqueue,
    enqueue_some,
    fail,
    ids,
    release,
    settle,
)

if TYPE_CHECKING:
    from dibs.broker.protocol import Broker
    from dibs.clock import FakeClock


class OrderSuite(Suite):
    """What comes first."""

    async def test_claim_by_priority_then_due_time_then_enqueue_order(self, broker: Broker, clock: FakeClock) -> None:
        for id, priority, delay in [
            ("later", 0, 20),
            ("first", 0, 0),
            ("second", 0, 0),
            ("high", "high", 20),
            ("low", "low", 0),
            ("third", 0, 10),
        ]:
            await enqueue(broker, id=id, priority=priority, delay=delay)
        clock.advance(20)

        assert ids(await claim(broker)) == ["high", "first", "second", "third", "later", "low"]

    async def test_claim_one_at_a_time_in_the_same_order(self, broker: Broker) -> None:
        for priority in (3, 1, 2, 3, 2, 1):
            await enqueue(broker, priority=priority, params=priority)

        assert [(await claim_one(broker)).params for _ in range(6)] == [3, 3, 2, 2, 1, 1]

    @pytest.mark.parametrize(
        ("order", "expected"),
        [
            (Order.PRIORITY_ASC, ["b", "a", "d", "c"]),
            (Order.CREATED_AT, ["a", "b", "c", "d"]),
            (Order.CREATED_AT_DESC, ["d", "c", "b", "a"]),
            ("priority", ["c", "a", "d", "b"]),
            ("created_at", ["a", "b", "c", "d"]),
        ],
    )
    async def test_claim_in_another_order(self, broker: Broker, order: str, expected: list[str]) -> None:
        for id, priority in [("a", 0), ("b", -1), ("c", 1), ("d", 0)]:
            await enqueue(broker, id=id, priority=priority)

        assert ids(await claim(broker, order=order)) == expected

    async def test_claim_at_random_gives_every_job_a_chance(self, broker: Broker) -> None:
        await enqueue_some(broker, 4)
        seen = set()
        for _ in range(100):
            job = await claim_one(broker, order="random")
            seen.add(job.id)
            await settle(broker, release(job))

        assert len(seen) == 4

    async def test_claim_after_a_release_keeps_the_place(self, broker: Broker, clock: FakeClock) -> None:
        first, second = await enqueue(broker), await enqueue(broker)
        clock.advance(5)
        await settle(broker, release(await claim_one(broker)))

        assert ids(await claim(broker)) == [first.id, second.id]

    async def test_claim_after_anything_else_is_at_the_end(self, broker: Broker, clock: FakeClock) -> None:
        failed, snoozed, redriven = [await enqueue(broker) for _ in range(3)]
        for job in await claim(broker):
            if job.id == failed.id:
                await settle(broker, fail(job, delay=0))
            elif job.id == snoozed.id:
                await settle(broker, release(job, 0))
            else:
                await settle(broker, fail(job, retryable=False))
        early = await enqueue(broker)
        clock.advance(1)
        await broker.redrive([redriven.id])

        assert ids(await claim(broker)) == [failed.id, snoozed.id, early.id, redriven.id]
