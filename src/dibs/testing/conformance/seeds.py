"""The tests that the design began with, by the names they had there."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from dibs.domain.job import Outcome, Status
from dibs.testing.conformance.base import Suite
from dibs.testing.conformance.builders import (
    FOREVER,
    claim,
    claim_one,
    completed,
    enqueue,
    enqueue_and_claim,
    find,
    ids,
    in_threads,
    new_job,
    new_jobs,
    read,
    reap,
    settle,
)

if TYPE_CHECKING:
    from dibs.clock import FakeClock
    from dibs.domain.job import Job
    from dibs.store import Store

SEED_LEASE = 300  # the five minutes after which a worker may have crashed


async def ten_workers(store: Store) -> list[tuple[str, list[Job]]]:
    """Let ten workers claim one job each, at the same time, each in its own thread."""

    async def work(name: str) -> tuple[str, list[Job]]:
        return name, await claim(store, name, limit=1)

    return await in_threads([partial(work, f"worker-{n}") for n in range(1, 11)])


class SeedSuite(Suite):
    """From the documents that dibs comes from."""

    async def test_claim_is_atomic(self, store: Store) -> None:
        await enqueue(store, *(new_job(f"job-{i}", task="test") for i in range(10)))
        claimed_ids: list[str] = []

        async def claim_worker() -> None:
            while jobs := await claim(store, limit=1):
                claimed_ids.append(jobs[0].id)

        await asyncio.gather(*[claim_worker() for _ in range(5)])

        # Each job claimed exactly once
        assert len(claimed_ids) == 10
        assert len(set(claimed_ids)) == 10

    async def test_claim_by_ten_workers_of_ten_jobs(self, store: Store) -> None:
        await enqueue(store, *new_jobs(10))

        claimed = [(worker, job.id) for worker, jobs in await ten_workers(store) for job in jobs]

        assert len(claimed) == 10
        assert len({id for _, id in claimed}) == 10  # no double-claiming
        assert len({worker for worker, _ in claimed}) == 10  # each worker claimed exactly one

    async def test_claim_by_ten_workers_of_five_jobs(self, store: Store) -> None:
        await enqueue(store, *new_jobs(5))

        results = await ten_workers(store)

        assert sorted(len(jobs) for _, jobs in results) == [0] * 5 + [1] * 5
        assert len({job.id for _, jobs in results for job in jobs}) == 5

    async def test_claim_by_ten_workers_of_one_job(self, store: Store) -> None:
        await enqueue(store, new_job("test_job"))

        successful = [jobs for _, jobs in await ten_workers(store) if jobs]

        assert [ids(jobs) for jobs in successful] == [["test_job"]]  # exactly one worker should claim the job

    async def test_claim_task_success(self, store: Store) -> None:
        await enqueue(store, new_job("123"))

        job = await claim_one(store, "worker-01")

        assert (job.id, job.status, job.worker_id, job.claimed_at is not None) == ("123", "claimed", "worker-01", True)

    async def test_claim_task_none_available(self, store: Store) -> None:
        assert await claim(store, "worker-01") == []

    async def test_claim_task_with_filters(self, store: Store) -> None:
        await enqueue(
            store,
            new_job("reddit", task="reddit_post_fetch"),
            new_job("tired", task="youtube_video_scrape", max_attempts=2),
            new_job("youtube", task="youtube_video_scrape", max_attempts=3),
        )

        # the seed's max_attempts_remaining = 2: attempts < max_attempts - 2
        jobs = await claim(store, "worker-01", tasks=("youtube_video_scrape",), min_attempts_left=3)

        assert ids(jobs) == ["youtube"]

    async def test_idempotency(self, store: Store) -> None:
        """Same request twice returns same result."""
        draft = new_job(idempotency_key="resource-1")

        [first], [second] = await enqueue(store, draft), await enqueue(store, draft)

        assert (first.id, first.created_us) == (second.id, second.created_us)
        assert len(await find(store)) == 1

    async def test_concurrent_processing(self, store: Store) -> None:
        """Two workers don't process same item."""
        await enqueue(store, new_job())

        first, second = await asyncio.gather(claim(store, "a"), claim(store, "b"))

        assert len(first) + len(second) == 1

    async def test_race_condition(self, store: Store) -> None:
        """Concurrent updates produce correct final state."""
        jobs = [await enqueue_and_claim(store, new_job()) for _ in range(10)]

        outcomes = await asyncio.gather(*(settle(store, completed(job)) for job in jobs for _ in range(2)))

        assert sorted(outcome for [outcome] in outcomes) == [Outcome.APPLIED] * 10 + [Outcome.REPEATED] * 10
        assert (await store.counts()).completed == 10  # derived, never incremented

    async def test_crash_recovery(self, store: Store, clock: FakeClock) -> None:
        """Timeout monitors recover stuck records."""
        await enqueue(store, new_job("stuck", lease=SEED_LEASE))
        crashed = await claim_one(store, "worker-1")
        clock.advance(SEED_LEASE - 1)
        assert await reap(store, clock) == []
        clock.advance(1)
        assert [written.outcome for written in await reap(store, clock)] == [Outcome.APPLIED]
        clock.advance(FOREVER)

        second = await claim_one(store, "worker-2")

        assert (second.id, second.fence, second.attempts) == ("stuck", 2, 1)
        assert await settle(store, completed(crashed)) == [Outcome.LOST]
        assert await settle(store, completed(second)) == [Outcome.APPLIED]
        assert (await read(store, "stuck")).status is Status.COMPLETED
