"""redrive: finished jobs run again, by id and by filter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dibs.broker.protocol import Changes
from dibs.domain.errors import NotFound, UniqueConflict, WrongState
from dibs.domain.job import Extension, Filter, Outcome, Status
from dibs.testing.conformance.broker.base import Suite
from dibs.testing.conformance.broker.verbs import (
    claim,
    claim_one,
    complete,
    enqueue,
    enqueue_some,
    events,
    fail,
    ids,
    read,
    settle,
    take,
)

if TYPE_CHECKING:
    from dibs.broker.protocol import Broker
    from dibs.clock import FakeClock


async def dead(broker: Broker, number: int, **options: Any) -> list[str]:
    """Put so many jobs into the dead letter."""
    jobs = await enqueue_some(broker, number, **options)
    for job in jobs:
        await settle(broker, fail(await claim_one(broker, id=job.id), retryable=False))
    return ids(jobs)


class RedriveSuite(Suite):
    """Running jobs again."""

    @pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
    async def test_redrive_a_finished_job(self, broker: Broker, clock: FakeClock, end: str) -> None:
        job = await take(broker, idempotency_key="k", max_attempts=2)
        await broker.extend([Extension(job.ref, 0.5, "halfway")])
        if end == "cancelled":
            await broker.cancel([job.id])
        else:
            await settle(broker, complete(job, 5) if end == "completed" else fail(job, retryable=False))
        clock.advance(60)

        assert await broker.redrive([job.id], by="olga") == Changes(matched=1, changed=1)
        after = await read(broker, job.id)
        assert (after.status, after.attempts, after.fence, after.due_us) == (Status.PENDING, 0, 1, clock.now())
        assert (after.result, after.error, after.progress, after.progress_note, after.completed_us) == (
            None, None, None, "", None,
        )  # fmt: skip
        assert (await enqueue(broker, idempotency_key="k")).id == job.id
        assert (await broker.log(job.id))[-1].actor == "olga"
        again = await claim_one(broker)
        assert (again.id, again.fence, again.attempts) == (job.id, 2, 0)
        assert await settle(broker, complete(again)) == [Outcome.APPLIED]

    async def test_redrive_gives_all_attempts_anew(self, broker: Broker) -> None:
        [id] = await dead(broker, 1, max_attempts=2)
        await broker.redrive([id])
        for _ in range(2):
            await settle(broker, fail(await claim_one(broker), delay=0))

        after = await read(broker, id)
        assert (after.status, after.attempts, after.fence) == (Status.FAILED, 2, 3)

    async def test_redrive_one_that_cannot_be(self, broker: Broker) -> None:
        pending, held = await enqueue(broker), await take(broker)

        for job in (pending, held):
            with pytest.raises(WrongState):
                await broker.redrive([job.id])
        with pytest.raises(NotFound):
            await broker.redrive(["none"])
        assert await events(broker, pending.id) == ["enqueued"]

    async def test_redrive_several_counts_what_became_of_each(self, broker: Broker) -> None:
        one, two = await dead(broker, 2)
        pending = await enqueue(broker)
        changes = await broker.redrive([one, two, pending.id, "none", one])

        assert changes == Changes(matched=4, changed=2, refused=2, missing=1)

    async def test_redrive_into_a_taken_unique_key(self, broker: Broker) -> None:
        [old] = await dead(broker, 1, unique_key="u")
        newer = await enqueue(broker, unique_key="u")

        with pytest.raises(UniqueConflict) as raised:
            await broker.redrive([old])
        assert raised.value.code == "unique_conflict"
        assert (await read(broker, old)).status is Status.FAILED

        await settle(broker, complete(await claim_one(broker, id=newer.id)))
        assert (await broker.redrive([old])).changed == 1
        assert (await enqueue(broker, unique_key="u")).id == old

    async def test_redrive_skips_and_counts_conflicts_in_bulk(self, broker: Broker) -> None:
        [taken] = await dead(broker, 1, unique_key="u")
        free = await dead(broker, 2)
        await enqueue(broker, unique_key="u")

        assert await broker.redrive([taken, *free]) == Changes(matched=3, changed=2, conflicts=1)
        assert await broker.redrive([], where=Filter()) == Changes(matched=1, conflicts=1)

    async def test_redrive_of_two_with_one_unique_key(self, broker: Broker) -> None:
        await dead(broker, 1, unique_key="u")
        await dead(broker, 1, unique_key="u")

        assert await broker.redrive([], where=Filter()) == Changes(matched=2, changed=1, conflicts=1)
        assert (await broker.counts()).pending == 1

    async def test_redrive_by_filter(self, broker: Broker) -> None:
        mail = await dead(broker, 3, queue="mail", tags=["red"])
        other = await dead(broker, 2, queue="other", batch="b")
        stopped = await enqueue(broker, queue="mail")
        await broker.cancel([stopped.id])

        assert await broker.redrive([], where=Filter(queue="mail"), dry_run=True) == Changes(matched=3, dry_run=True)
        assert (await broker.counts()).failed == 5
        assert await broker.redrive([], where=Filter(queue="mail", tag="blue")) == Changes()
        assert await broker.redrive([], where=Filter(batch_id="b")) == Changes(matched=2, changed=2)
        assert await broker.redrive([], where=Filter(tag="red")) == Changes(matched=3, changed=3)
        assert sorted(ids(await claim(broker))) == sorted([*mail, *other])
        assert await broker.redrive([], where=Filter(status="cancelled")) == Changes(matched=1, changed=1)

    async def test_redrive_more_than_a_step(self, broker: Broker) -> None:
        jobs = await enqueue_some(broker, 1000)
        await broker.settle([fail(job, retryable=False) for job in await claim(broker, limit=1000)])
        more = await dead(broker, 1)

        assert await broker.redrive([], where=Filter()) == Changes(matched=1001, changed=1001)
        assert (await broker.counts()).pending == 1001
        claimed = await claim(broker, limit=1000)
        assert sorted(ids([*claimed, *await claim(broker)])) == sorted([*ids(jobs), *more])
