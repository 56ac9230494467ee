"""prune: what has ended is kept for its time, and not longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from dibs.domain import transitions
from dibs.domain.job import EventName, Keep, Outcome, Status
from dibs.domain.retry import SECOND
from dibs.testing.conformance.base import Suite
from dibs.testing.conformance.builders import (
    DAY,
    FOREVER,
    US,
    claim,
    claim_one,
    completed,
    enqueue,
    enqueue_and_claim,
    failed,
    find,
    new_job,
    new_jobs,
    read,
    settle,
)

if TYPE_CHECKING:
    from dibs.clock import FakeClock
    from dibs.domain.job import Job
    from dibs.domain.transitions import Write
    from dibs.store import Store

ENDS = ["complete", "fail", "cancel"]


def end(how: str, job: Job) -> Write:
    """End a job in one of the three ways."""
    writes = {"complete": completed(job), "fail": failed(job, retryable=False), "cancel": transitions.cancel(job.id)}
    return writes[how]


class RetentionSuite(Suite):
    """What becomes of finished jobs."""

    @pytest.mark.parametrize(("how", "kept"), [("complete", 100), ("fail", 200), ("cancel", 300)])
    async def test_prune_keeps_a_job_for_its_time(self, store: Store, clock: FakeClock, how: str, kept: int) -> None:
        draft = replace(new_job("a"), keep=Keep(100 * SECOND, 200 * SECOND, 300 * SECOND))
        job = await enqueue_and_claim(store, draft)
        clock.advance(1000)  # it is the end that counts
        await settle(store, end(how, job))
        clock.advance(kept - US)
        assert await store.prune(100) == 0
        assert (await read(store, "a")).status.finished

        clock.advance(US)
        assert await store.prune(100) == 1
        assert await store.get(["a"]) == [None]
        assert await store.prune(100) == 0

    @pytest.mark.parametrize("how", ENDS)
    async def test_prune_is_not_needed_for_a_job_kept_for_no_time(
        self, store: Store, clock: FakeClock, how: str
    ) -> None:
        job = await enqueue_and_claim(store, new_job(keep=0, idempotency_key="key", unique_key="unique"))
        clock.advance(1)

        assert await settle(store, end(how, job)) == [Outcome.APPLIED]

        assert await store.get([job.id]) == [None]
        assert await find(store) == []
        assert (await store.counts()).unfinished == 0
        [event] = await store.log(job.id)
        assert (event.event, event.seq, event.to, event.at_us) == (EventName.PRUNED, 4, None, clock.now())
        [new] = await enqueue(store, new_job(idempotency_key="key", unique_key="unique", params=b"2"))
        assert not new.was_duplicate

    async def test_prune_leaves_a_retry_of_a_job_kept_for_no_time(self, store: Store) -> None:
        job = await enqueue_and_claim(store, new_job(keep=0))
        await settle(store, failed(job))

        assert (await read(store, job.id)).status is Status.PENDING

    async def test_prune_takes_no_more_than_it_is_told_to(self, store: Store, clock: FakeClock) -> None:
        await enqueue(store, *new_jobs(5, keep=10))
        await settle(store, *map(completed, await claim(store)))
        clock.advance(10)

        assert [await store.prune(2) for _ in range(4)] == [2, 2, 1, 0]
        assert await find(store) == []

    async def test_prune_takes_no_unfinished_job(self, store: Store, clock: FakeClock) -> None:
        await enqueue(store, *(new_job(id, keep=1) for id in ("claimed", "retried", "redriven")))
        await enqueue(store, new_job("pending", keep=1), new_job("later", keep=1, delay=10 * DAY))
        await enqueue(store, new_job("held", keep=1, delay=None))
        _, retried, redriven = [await claim_one(store, id=id) for id in ("claimed", "retried", "redriven")]
        await settle(store, failed(retried), completed(redriven))
        await settle(store, transitions.redrive("redriven"))
        clock.advance(400 * DAY)

        assert await store.prune(100) == 0
        assert len(await find(store)) == 6

    async def test_prune_counts_from_the_last_end(self, store: Store, clock: FakeClock) -> None:
        job = await enqueue_and_claim(store, new_job(keep=100))
        await settle(store, completed(job))
        clock.advance(99)
        await settle(store, transitions.redrive(job.id))
        await settle(store, completed(await claim_one(store)))
        clock.advance(99)
        assert await store.prune(100) == 0

        clock.advance(1)
        assert await store.prune(100) == 1

    async def test_prune_of_a_job_leaves_its_last_event_for_a_day(self, store: Store, clock: FakeClock) -> None:
        job = await enqueue_and_claim(store, new_job(keep=10))
        await settle(store, completed(job))
        clock.advance(10)
        await store.prune(100)

        [event] = await store.log(job.id)
        assert (event.event, event.from_, event.to) == (EventName.PRUNED, Status.COMPLETED, None)
        assert (event.seq, event.fence, event.attempts, event.at_us) == (4, 1, 1, clock.now())

        clock.advance(DAY - 1)
        await store.prune(100)
        assert await store.log(job.id) == [event]
        clock.advance(1)
        await store.prune(100)
        assert await store.log(job.id) == []

    async def test_prune_by_an_operator_says_who(self, store: Store) -> None:
        job = await enqueue_and_claim(store)
        await settle(store, completed(job))
        await settle(store, transitions.purge(job.id, "ann"))

        [event] = await store.log(job.id)
        assert (event.event, event.actor, event.seq) == (EventName.PRUNED, "ann", 4)

    async def test_prune_makes_the_id_free_for_a_new_life(self, store: Store, clock: FakeClock) -> None:
        old = await enqueue_and_claim(store, new_job("a", keep=10, params=b"1"))
        await settle(store, completed(old))
        clock.advance(10)
        await store.prune(100)

        new = await enqueue_and_claim(store, new_job("a", params=b"2"))

        assert (new.fence, new.attempts, new.params_json) == (1, 0, b"2")
        assert [(event.seq, event.event) for event in await store.log("a")] == [(1, "enqueued"), (2, "claimed")]
        assert await settle(store, completed(old)) == [Outcome.LOST]  # the same id and fence, but not the token

    async def test_prune_takes_documents_whose_time_is_over(self, store: Store, clock: FakeClock) -> None:
        await store.put("a", b"1", keep_us=SECOND)
        await store.put("b", b"1")
        clock.advance(FOREVER)

        assert await store.prune(100) == 0
        assert [document.name for document in await store.documents("")] == ["b"]
