"""The tests that the design began with, by the names they had there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dibs.broker.protocol import Ask
from dibs.domain.errors import NotClaimable
from dibs.domain.job import Outcome, Status
from dibs.testing.conformance.broker.base import Suite
from dibs.testing.conformance.broker.verbs import (
    AT_ONCE,
    claim,
    claim_one,
    complete,
    enqueue,
    enqueue_some,
    find,
    ids,
    read,
    reap,
    settle,
    take,
)

if TYPE_CHECKING:
    from dibs.broker.protocol import Broker
    from dibs.clock import FakeClock
    from dibs.domain.job import Job

SEED_LEASE = 300  # the five minutes after which a worker may have crashed


async def ten_workers(broker: Broker) -> list[list[Job]]:
    """Let ten workers claim one job each, at the same time."""
    return await asyncio.gather(*(broker.claim(Ask(worker_id=f"worker-{n}")) for n in range(1, 11)))


class SeedSuite(Suite):
    """From the documents that dibs comes from."""

    async def test_ten_workers_and_ten_jobs(self, broker: Broker) -> None:
        jobs = await enqueue_some(broker, 10)
        got = await ten_workers(broker)

        assert [len(mine) for mine in got] == [1] * 10  # each worker claimed exactly one
        assert sorted(job.id for [job] in got) == sorted(ids(jobs))  # no double-claiming
        assert {job.worker_id for [job] in got} == {f"worker-{n}" for n in range(1, 11)}

    async def test_ten_workers_and_five_jobs(self, broker: Broker) -> None:
        jobs = await enqueue_some(broker, 5)
        got = await ten_workers(broker)

        assert sorted(len(mine) for mine in got) == [0] * 5 + [1] * 5
        assert sorted(job.id for mine in got for job in mine) == sorted(ids(jobs))

    async def test_ten_workers_and_one_job(self, broker: Broker) -> None:
        job = await enqueue(broker)
        got = await ten_workers(broker)

        assert [ids(mine) for mine in got if mine] == [[job.id]]

    async def test_idempotency(self, broker: Broker) -> None:
        """Same request twice returns same result."""
        first, second = [await enqueue(broker, params={"n": 1}, idempotency_key="resource-1") for _ in range(2)]

        assert (first.id, first.created_us, second.was_duplicate) == (second.id, second.created_us, True)
        assert len(await find(broker)) == 1

    async def test_race(self, broker: Broker) -> None:
        """Two workers don't process same item."""
        job = await enqueue(broker)
        answers = await asyncio.gather(
            claim(broker, "worker-1", id=job.id), claim(broker, "worker-2", id=job.id), return_exceptions=True
        )

        [refusal] = [answer for answer in answers if isinstance(answer, NotClaimable)]
        assert refusal.message == "Task already claimed by another worker"
        [[winner]] = [answer for answer in answers if isinstance(answer, list)]
        outcomes = await asyncio.gather(*(settle(broker, complete(winner)) for _ in range(2)))
        assert sorted(outcome for [outcome] in outcomes) == [Outcome.APPLIED, Outcome.REPEATED]
        assert (await broker.counts()).completed == 1

    async def test_crash_recovery(self, broker: Broker, clock: FakeClock) -> None:
        """Timeout monitors recover stuck records."""
        crashed = await take(broker, "worker-1", retry=AT_ONCE)
        clock.advance(SEED_LEASE - 1)
        await reap(broker)
        assert await claim(broker, "worker-2") == []
        clock.advance(1)
        second = await claim_one(broker, "worker-2")

        assert (second.id, second.fence, second.attempts) == (crashed.id, 2, 1)
        assert await settle(broker, complete(crashed)) == [Outcome.LOST]
        assert await settle(broker, complete(second)) == [Outcome.APPLIED]
        assert (await read(broker, crashed.id)).status is Status.COMPLETED
