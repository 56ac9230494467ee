"""seal, batch: one last job for each batch, once all of its jobs have ended, however they did and whoever looks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from dibs.domain.batch import MAX_ID, MAX_PARAMS, key_of
from dibs.domain.errors import Invalid, InvalidRequest, TooLarge
from dibs.domain.job import Filter
from dibs.testing.conformance.broker.base import Suite
from dibs.testing.conformance.broker.verbs import AT_ONCE, claim, claim_one, complete, enqueue, fail, new, settle

if TYPE_CHECKING:
    from dibs.broker.protocol import Broker
    from dibs.clock import FakeClock
    from dibs.domain.job import Job
    from dibs.domain.newjob import NewJob

BATCH = "b-1"
LAST = "report"


def last(**options: object) -> NewJob:
    """Make the job that a batch ends with."""
    return new(LAST, **options)


async def last_jobs(broker: Broker) -> list[Job]:
    """Read the last jobs that there are."""
    found, _ = await broker.find(Filter(task=LAST), limit=100, cursor=None)
    return found


class BatchSuite(Suite):
    """Batches."""

    async def test_batch_counts_its_jobs_by_status(self, broker: Broker) -> None:
        for number in range(6):
            await enqueue(broker, params=number, batch=BATCH, max_attempts=1)
        await enqueue(broker, batch="another")
        await enqueue(broker)
        first, second, _ = await claim(broker, limit=3)
        await settle(broker, complete(first))
        await settle(broker, fail(second))
        [pending, *_], _ = await broker.find(Filter(batch_id=BATCH, status="pending"), limit=10, cursor=None)
        await broker.cancel([pending.id])

        info = await broker.batch(BATCH)
        assert (info.total, info.pending, info.claimed) == (6, 2, 1)
        assert (info.completed, info.failed, info.cancelled) == (1, 1, 1)
        assert (info.finished, info.progress, info.exact, info.ended) == (3, 0.5, True, False)
        assert (await broker.batch("another")).total == 1

    async def test_batch_in_one_queue(self, broker: Broker) -> None:
        await enqueue(broker, batch=BATCH, queue="mail")
        await enqueue(broker, batch=BATCH)
        assert (await broker.batch(BATCH, queue="mail")).total == 1
        assert (await broker.batch(BATCH)).total == 2

    async def test_batch_that_there_is_not_is_empty(self, broker: Broker) -> None:
        info = await broker.batch("never")
        assert (info.batch_id, info.total, info.progress, info.ended) == ("never", 0, 1.0, True)

    async def test_seal_enqueues_the_last_job_when_all_have_ended(self, broker: Broker) -> None:
        for _ in range(2):
            await enqueue(broker, batch=BATCH)
        await broker.seal(BATCH, last(params={"batch": BATCH}, queue="mail", priority=7))
        assert await last_jobs(broker) == []
        await settle(broker, complete(await claim_one(broker)))
        await broker.end_batches()
        assert await last_jobs(broker) == []
        await settle(broker, complete(await claim_one(broker, queues=["default"])))
        await broker.end_batches()

        [job] = await last_jobs(broker)
        assert (job.params, job.queue, job.priority) == ({"batch": BATCH}, "mail", 7)
        assert (job.batch_id, job.idempotency_key) == (None, key_of(BATCH))
        assert (await broker.batch(BATCH)).ended
        await settle(broker, complete(await claim_one(broker, queues=["mail"])))
        await broker.end_batches()
        assert len(await last_jobs(broker)) == 1

    async def test_seal_of_a_batch_that_has_ended_enqueues_it_at_once(self, broker: Broker) -> None:
        await enqueue(broker, batch=BATCH)
        await settle(broker, complete(await claim_one(broker)))
        await broker.seal(BATCH, last())
        assert len(await last_jobs(broker)) == 1

    async def test_seal_of_an_empty_batch_enqueues_it_at_once(self, broker: Broker) -> None:
        await broker.seal(BATCH, last())
        assert len(await last_jobs(broker)) == 1

    async def test_seal_twice_enqueues_one(self, broker: Broker) -> None:
        await enqueue(broker, batch=BATCH)
        await broker.seal(BATCH, last())
        await broker.seal(BATCH, last())
        await settle(broker, complete(await claim_one(broker)))
        await broker.end_batches()
        await broker.seal(BATCH, last())
        assert len(await last_jobs(broker)) == 1

    async def test_seal_waits_for_retries_and_counts_every_end(self, broker: Broker, clock: FakeClock) -> None:
        """Failed for good, cancelled, and one whose worker died: all of them have ended."""
        for _ in range(3):
            await enqueue(broker, batch=BATCH, max_attempts=2, retry=AT_ONCE)
        await broker.seal(BATCH, last())
        failing, cancelled, dying = await claim(broker, limit=3, lease=10)
        await settle(broker, fail(failing, delay=0))
        await broker.cancel([cancelled.id])
        await broker.end_batches()
        assert await last_jobs(broker) == []
        again = await claim_one(broker, id=failing.id)
        await settle(broker, fail(again))
        clock.advance(20)
        dying_again = await claim_one(broker, id=dying.id, lease=10)
        assert dying_again.fence == 2
        await broker.end_batches()
        assert await last_jobs(broker) == []
        clock.advance(20)
        assert await claim(broker, queues=["empty"]) == []  # whoever finds nothing takes away the lease that ran out
        await broker.end_batches()

        assert (await broker.batch(BATCH)).failed == 2
        assert len(await last_jobs(broker)) == 1

    async def test_seal_waits_for_what_its_own_jobs_add(self, broker: Broker) -> None:
        await enqueue(broker, batch=BATCH)
        await broker.seal(BATCH, last())
        parent = await claim_one(broker)
        await enqueue(broker, "child", batch=BATCH)
        await settle(broker, complete(parent))
        await broker.end_batches()
        assert await last_jobs(broker) == []
        await settle(broker, complete(await claim_one(broker, tasks=["child"])))
        await broker.end_batches()
        assert len(await last_jobs(broker)) == 1

    async def test_seal_ends_once_though_many_look_at_once(self, broker: Broker) -> None:
        for number in range(5):
            await enqueue(broker, batch=f"batch-{number}")
            await broker.seal(f"batch-{number}", last(params=number))
        await asyncio.gather(*(settle(broker, complete(job)) for job in await claim(broker, limit=5)))
        await asyncio.gather(*(broker.end_batches() for _ in range(5)))

        assert sorted(job.params for job in await last_jobs(broker)) == [0, 1, 2, 3, 4]

    async def test_seal_refuses_what_cannot_be(self, broker: Broker) -> None:
        for id in ("", "x" * (MAX_ID + 1), "\x00", None):
            with pytest.raises(InvalidRequest, match="batch_id"):
                await broker.seal(id, last())  # type: ignore[arg-type]
        for field, value in {"id": "mine", "idempotency_key": "k", "batch": "other"}.items():
            with pytest.raises(InvalidRequest, match=f"on_end.{field}"):
                await broker.seal(BATCH, last(**{field: value}))
        with pytest.raises(Invalid, match="priority"):
            await broker.seal(BATCH, last(priority="very"))
        with pytest.raises(TooLarge, match="params"):
            await broker.seal(BATCH, last(params="x" * (MAX_PARAMS + 1)))
        assert await last_jobs(broker) == []
