"""claim: a due job to one claimer, and what it may ask for."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from dibs.domain.job import Outcome, Status
from dibs.domain.retry import SECOND
from dibs.testing.conformance.broker.base import TUNED, Suite
from dibs.testing.conformance.broker.verbs import (
    AT_ONCE,
    claim,
    claim_one,
    complete,
    enqueue,
    enqueue_some,
    events,
    fail,
    ids,
    read,
    release,
    settle,
    take,
)
from dibs.testing.conformance.builders import US

if TYPE_CHECKING:
    from dibs.broker.protocol import Broker
    from dibs.clock import FakeClock
    from dibs.domain.retry import Duration


class ClaimSuite(Suite):
    """Claiming, but for the order, waiting and single jobs."""

    async def test_claim_leases_the_job(self, broker: Broker, clock: FakeClock) -> None:
        job = await enqueue(broker, params={"n": 1})
        clock.advance(3)
        claimed = await claim_one(broker, "worker-1")

        assert (claimed.id, claimed.status, claimed.worker_id, claimed.params) == (
            job.id,
            "claimed",
            "worker-1",
            {"n": 1},
        )
        assert (claimed.fence, claimed.attempts) == (1, 0)
        assert (claimed.claimed_us, claimed.lease_expires_us) == (clock.now(), clock.now() + 300 * SECOND)
        assert (claimed.created_us, claimed.due_us) == (job.created_us, job.due_us)
        assert len(claimed.lease_token) >= 16
        assert await events(broker, job.id) == ["enqueued", "claimed"]

    async def test_claim_shows_its_token_to_the_claimer_alone(self, broker: Broker) -> None:
        claimed = await take(broker, idempotency_key="k")
        again = await enqueue(broker, idempotency_key="k")

        assert (await read(broker, claimed.id)).lease_token == ""
        assert again.lease_token == ""
        assert (await broker.explain(claimed.id)).job.lease_token == ""
        assert claimed.lease_token not in repr(await broker.log(claimed.id))

    async def test_claim_makes_a_new_token_each_time(self, broker: Broker) -> None:
        await enqueue_some(broker, 3)
        tokens = set()
        for _ in range(5):
            job = await claim_one(broker)
            tokens.add(job.lease_token)
            await settle(broker, release(job))

        assert len(tokens) == 5

    async def test_claim_finds_nothing(self, broker: Broker) -> None:
        assert await claim(broker) == []

    async def test_claim_never_hands_out_a_job_twice(self, broker: Broker) -> None:
        jobs = await enqueue_some(broker, 30)
        got = await asyncio.gather(*(claim(broker, f"w{n}", limit=n % 4 + 1) for n in range(20)))

        handed = [job for batch in got for job in batch]
        assert sorted(ids(handed)) == sorted(ids(jobs))
        assert all(len(batch) <= n % 4 + 1 for n, batch in enumerate(got))
        assert all(job.worker_id == f"w{n}" for n, batch in enumerate(got) for job in batch)

    @pytest.mark.parametrize("limit", [1, 2, 5, 1000])
    async def test_claim_leases_what_it_returns(self, broker: Broker, limit: int) -> None:
        await enqueue_some(broker, 3)
        jobs = await claim(broker, limit=limit)

        assert len(jobs) == min(limit, 3)
        counts = await broker.counts()
        assert (counts.claimed, counts.pending) == (len(jobs), 3 - len(jobs))

    async def test_claim_a_thousand(self, broker: Broker) -> None:
        jobs = await enqueue_some(broker, 1000)

        assert ids(await claim(broker, limit=1000)) == ids(jobs)

    async def test_claim_not_before_the_job_is_due(self, broker: Broker, clock: FakeClock) -> None:
        job = await enqueue(broker, delay=10)
        clock.advance(10 - US)
        assert await claim(broker) == []

        clock.advance(US)
        assert ids(await claim(broker)) == [job.id]

    async def test_claim_when_the_clock_was_set_back(self, broker: Broker, clock: FakeClock) -> None:
        first = await enqueue(broker, delay=10)
        second = await enqueue(broker)
        clock.advance(-3600)

        assert ids(await claim(broker)) == [second.id]
        clock.advance(3610)
        assert ids(await claim(broker)) == [first.id]

    async def test_claim_by_queue_and_task(self, broker: Broker) -> None:
        for queue in ("a", "b"):
            for task in ("x", "y", "z"):
                await enqueue(broker, task, queue=queue, id=queue + task)

        assert ids(await claim(broker, queues=["a"], tasks=["y"])) == ["ay"]
        assert sorted(ids(await claim(broker, tasks=["y", "z", "none"]))) == ["az", "by", "bz"]
        assert ids(await claim(broker, queues=["b", "none", "b"])) == ["bx"]
        assert await claim(broker, queues=["none"]) == []
        assert await claim(broker, queues=["b"]) == []
        assert ids(await claim(broker)) == ["ax"]

    async def test_claim_by_attempts_left(self, broker: Broker) -> None:
        one, three = await enqueue(broker, max_attempts=1), await enqueue(broker, max_attempts=3)

        assert await claim(broker, min_attempts_left=4) == []
        [job] = await claim(broker, min_attempts_left=2)
        assert job.id == three.id
        await settle(broker, fail(job, delay=0))
        assert await claim(broker, min_attempts_left=3) == []
        assert sorted(ids(await claim(broker, min_attempts_left=1))) == sorted([one.id, three.id])

    @pytest.mark.parametrize("lease", [20, 0.5, timedelta(minutes=1)])
    async def test_claim_for_as_long_as_the_request_says(
        self, broker: Broker, clock: FakeClock, lease: Duration
    ) -> None:
        await enqueue(broker, lease=50)
        job = await claim_one(broker, lease=lease)

        seconds = lease.total_seconds() if isinstance(lease, timedelta) else lease
        assert job.lease_expires_us == clock.now() + seconds * SECOND

    async def test_claim_for_as_long_as_the_job_or_its_queue_says(self, broker: Broker, clock: FakeClock) -> None:
        await enqueue(broker, lease=50, queue="a")
        await enqueue(broker, queue=TUNED)

        assert (await claim_one(broker, queues=["a"])).lease_expires_us == clock.now() + 50 * SECOND
        assert (await claim_one(broker, queues=[TUNED])).lease_expires_us == clock.now() + 7 * SECOND

    async def test_claim_reaps_where_it_finds_nothing_and_looks_once_more(
        self, broker: Broker, clock: FakeClock
    ) -> None:
        first = await take(broker, claim_lease=10, retry=AT_ONCE)
        clock.advance(10)
        second = await claim_one(broker, "other")  # one call: no reaper was needed

        assert (second.id, second.fence, second.attempts, second.worker_id) == (first.id, 2, 1, "other")
        assert second.error is not None
        assert second.error.kind == "lease_expired"
        assert await events(broker, first.id) == ["enqueued", "claimed", "expired", "claimed"]

    async def test_claim_leaves_a_running_lease_alone(self, broker: Broker, clock: FakeClock) -> None:
        job = await take(broker, claim_lease=10, retry=AT_ONCE)
        clock.advance(10 - US)

        assert await claim(broker) == []
        assert await settle(broker, complete(job)) == [Outcome.APPLIED]

    async def test_claim_gives_no_finished_job(self, broker: Broker) -> None:
        done, dead, stopped = [await take(broker) for _ in range(3)]
        await settle(broker, complete(done), fail(dead, retryable=False))
        await broker.cancel([stopped.id])

        assert await claim(broker) == []
        assert [(await read(broker, job.id)).status for job in (done, dead, stopped)] == [
            Status.COMPLETED,
            Status.FAILED,
            Status.CANCELLED,
        ]
