"""cancel and purge: of one job, of several, or of all that match."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.broker.protocol import Changes
from dibs.domain.errors import NotFound, WrongState
from dibs.domain.job import Filter, Outcome, Status
from dibs.testing.conformance.broker.base import Suite
from dibs.testing.conformance.broker.verbs import (
    claim,
    complete,
    enqueue,
    enqueue_some,
    events,
    fail,
    find,
    ids,
    read,
    settle,
    take,
)

if TYPE_CHECKING:
    from dibs.broker.protocol import Broker
    from dibs.clock import FakeClock


class OperateSuite(Suite):
    """What an operator does, but for running jobs again."""

    async def test_cancel_a_pending_job(self, broker: Broker, clock: FakeClock) -> None:
        job = await enqueue(broker)
        changes = await broker.cancel([job.id], by="olga")

        after = await read(broker, job.id)
        assert changes == Changes(matched=1, changed=1)
        assert (after.status, after.attempts, after.completed_us) == (Status.CANCELLED, 0, clock.now())
        assert await claim(broker) == []
        assert [(event.event, event.actor) for event in await broker.log(job.id)] == [
            ("enqueued", None),
            ("cancelled", "olga"),
        ]

    async def test_cancel_a_claimed_job_takes_it_from_its_holder(self, broker: Broker) -> None:
        job = await take(broker)
        await broker.cancel([job.id])

        assert await settle(broker, complete(job)) == [Outcome.LOST]
        after = await read(broker, job.id)
        assert (after.status, after.attempts) == (Status.CANCELLED, 0)

    async def test_cancel_twice_is_no_error(self, broker: Broker) -> None:
        job = await enqueue(broker)
        await broker.cancel([job.id])

        assert await broker.cancel([job.id]) == Changes(matched=1, repeated=1)
        assert await events(broker, job.id) == ["enqueued", "cancelled"]

    async def test_cancel_one_that_cannot_be(self, broker: Broker) -> None:
        done = await take(broker)
        await settle(broker, complete(done))

        with pytest.raises(WrongState, match="completed"):
            await broker.cancel([done.id])
        with pytest.raises(NotFound):
            await broker.cancel(["none"])

    async def test_cancel_several_counts_what_became_of_each(self, broker: Broker) -> None:
        pending, held, done, dead = await enqueue(broker), *[await take(broker) for _ in range(3)]
        await settle(broker, complete(done), fail(dead, retryable=False))
        changes = await broker.cancel([pending.id, held.id, done.id, dead.id, "none", pending.id])

        assert changes == Changes(matched=5, changed=2, refused=2, missing=1, repeated=1)

    async def test_purge_a_finished_job(self, broker: Broker) -> None:
        job = await take(broker, idempotency_key="k")
        await settle(broker, complete(job))

        assert await broker.purge([job.id], by="olga") == Changes(matched=1, changed=1)
        assert await broker.get(job.id) is None
        last = (await broker.log(job.id))[-1]
        assert (last.event, last.actor) == ("pruned", "olga")
        assert not (await enqueue(broker, idempotency_key="k")).was_duplicate
        with pytest.raises(NotFound):
            await broker.purge([job.id])

    async def test_purge_spares_what_has_not_ended(self, broker: Broker) -> None:
        pending, held = await enqueue(broker), await take(broker)

        for job in (pending, held):
            with pytest.raises(WrongState):
                await broker.purge([job.id])
        assert await broker.purge([pending.id, held.id, "none"]) == Changes(matched=2, refused=2, missing=1)
        assert await broker.purge([], where=Filter(status=["pending", "claimed"])) == Changes()
        assert await settle(broker, complete(held)) == [Outcome.APPLIED]

    async def test_purge_the_dead_letter_unless_told_otherwise(self, broker: Broker) -> None:
        dead, done = await take(broker), await take(broker)
        await settle(broker, fail(dead, retryable=False), complete(done))

        assert await broker.purge([], where=Filter()) == Changes(matched=1, changed=1)
        assert ids(await find(broker)) == [done.id]
        assert await broker.purge([], where=Filter(status="completed")) == Changes(matched=1, changed=1)
        assert await find(broker) == []

    async def test_purge_can_be_tried_before(self, broker: Broker) -> None:
        await enqueue_some(broker, 3)
        held = await claim(broker)
        await settle(broker, *(fail(job, retryable=False) for job in held))
        pending = await enqueue(broker)

        assert await broker.purge([], where=Filter(), dry_run=True) == Changes(matched=3, dry_run=True)
        assert await broker.purge([held[0].id, pending.id, "none"], dry_run=True) == Changes(
            matched=1, missing=1, dry_run=True
        )
        assert (await broker.counts()).failed == 3

    async def test_purge_frees_an_id(self, broker: Broker) -> None:
        job = await take(broker, id="again")
        await settle(broker, complete(job))
        await broker.purge(["again"])
        reborn = await take(broker, id="again", params="other")

        assert (reborn.fence, reborn.was_duplicate) == (1, False)
        assert await settle(broker, complete(job)) == [Outcome.LOST]  # the same fence, but not the same token
        assert await settle(broker, complete(reborn)) == [Outcome.APPLIED]
        assert (await broker.verify()).ok
