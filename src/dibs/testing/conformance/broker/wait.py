"""claim: waiting for a job to come."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from dibs.testing.conformance.broker.base import Suite
from dibs.testing.conformance.broker.verbs import (
    AT_ONCE,
    a_few_turns,
    claim,
    enqueue,
    fail,
    ids,
    release,
    settle,
    take,
)
from dibs.testing.conformance.builders import soon

if TYPE_CHECKING:
    from dibs.broker.protocol import Broker
    from dibs.clock import FakeClock
    from dibs.domain.job import Job

DAY = 86_400


async def waiting(broker: Broker, worker_id: str = "waiter", **asked: Any) -> asyncio.Task[list[Job]]:
    """Begin to wait for a job, for a day."""
    task = asyncio.create_task(claim(broker, worker_id, **{"wait": DAY, **asked}))
    await a_few_turns()
    assert not task.done()
    return task


class WaitSuite(Suite):
    """A claim that waits is woken by whatever makes a job claimable."""

    async def test_claim_waits_for_an_enqueue(self, broker: Broker, clock: FakeClock) -> None:
        claiming = await waiting(broker)
        job = await enqueue(broker)

        assert ids(await soon(claiming, clock)) == [job.id]

    async def test_claim_does_not_wait_if_there_is_a_job(self, broker: Broker) -> None:
        job = await enqueue(broker)

        assert ids(await claim(broker, wait=DAY)) == [job.id]

    async def test_claim_waits_for_a_release(self, broker: Broker, clock: FakeClock) -> None:
        job = await take(broker)
        claiming = await waiting(broker)
        await settle(broker, release(job))

        assert ids(await soon(claiming, clock)) == [job.id]

    async def test_claim_waits_for_a_retry(self, broker: Broker, clock: FakeClock) -> None:
        job = await take(broker)
        claiming = await waiting(broker)
        await settle(broker, fail(job, delay=0))

        assert ids(await soon(claiming, clock)) == [job.id]

    async def test_claim_waits_for_a_redrive(self, broker: Broker, clock: FakeClock) -> None:
        job = await take(broker)
        await broker.cancel([job.id])
        claiming = await waiting(broker)
        await broker.redrive([job.id])

        assert ids(await soon(claiming, clock)) == [job.id]

    async def test_claim_waits_for_a_queue_to_be_resumed(self, broker: Broker, clock: FakeClock) -> None:
        await broker.pause("q")
        job = await enqueue(broker, queue="q")
        claiming = await waiting(broker, queues=["q"])
        await broker.resume("q")

        assert ids(await soon(claiming, clock)) == [job.id]

    async def test_claim_waits_for_a_due_time(self, broker: Broker, clock: FakeClock) -> None:
        job = await enqueue(broker, delay=0.5)
        claiming = await waiting(broker)
        [claimed] = await soon(claiming, clock)

        assert claimed.id == job.id
        assert (claimed.claimed_us or 0) >= job.due_us

    async def test_claim_waits_for_the_due_time_of_a_job_that_comes_later(
        self, broker: Broker, clock: FakeClock
    ) -> None:
        claiming = await waiting(broker)
        job = await enqueue(broker, delay=0.5)
        [claimed] = await soon(claiming, clock)

        assert claimed.id == job.id
        assert (claimed.claimed_us or 0) >= job.due_us

    async def test_claim_waits_for_a_lease_to_run_out(self, broker: Broker, clock: FakeClock) -> None:
        job = await take(broker, claim_lease=2, retry=AT_ONCE)
        claiming = await waiting(broker)
        clock.advance(2)
        [claimed] = await soon(claiming, clock)

        assert (claimed.id, claimed.fence, claimed.attempts) == (job.id, 2, 1)

    async def test_claim_waits_for_what_it_asked_for(self, broker: Broker, clock: FakeClock) -> None:
        claiming = await waiting(broker, queues=["a"], tasks=["x"])
        await enqueue(broker, "y", queue="a")
        await enqueue(broker, "x", queue="b")
        await a_few_turns()
        assert not claiming.done()
        job = await enqueue(broker, "x", queue="a")

        assert ids(await soon(claiming, clock)) == [job.id]

    async def test_claim_waits_no_longer_than_it_was_told(self, broker: Broker, clock: FakeClock) -> None:
        began = clock.now()
        claiming = await waiting(broker, wait=0.3)

        assert await soon(claiming, clock) == []
        assert clock.now() >= began + 300_000

    async def test_claim_ends_its_wait_at_any_time_of_day(self, broker: Broker, clock: FakeClock) -> None:
        """Race: times in floats. What is left of a wait may be less than a clock can tell, but never for ever."""
        for step in (0.123457, 0.3, 0.1, 0.07, 0.000003):
            clock.advance(step)
            claiming = await waiting(broker, wait=step)
            clock.advance(step)
            assert await soon(claiming, clock) == []

    async def test_claim_gives_one_job_to_one_of_those_who_wait(self, broker: Broker, clock: FakeClock) -> None:
        claiming = [await waiting(broker, f"waiter-{n}", wait=0.5) for n in range(5)]
        job = await enqueue(broker)
        got = [await soon(task, clock) for task in claiming]

        assert [ids(jobs) for jobs in got if jobs] == [[job.id]]

    async def test_claim_gives_many_who_wait_a_job_each(self, broker: Broker, clock: FakeClock) -> None:
        claiming = [await waiting(broker, f"waiter-{n}", limit=1) for n in range(10)]
        jobs = [await enqueue(broker) for _ in range(10)]
        got = [await soon(task, clock) for task in claiming]

        assert sorted(job.id for [job] in got) == sorted(ids(jobs))

    async def test_claim_that_gave_up_waiting_holds_nothing(self, broker: Broker, clock: FakeClock) -> None:
        claiming = await waiting(broker)
        claiming.cancel()
        await asyncio.wait({claiming})
        job = await enqueue(broker)

        assert ids(await soon(await _start(broker), clock)) == [job.id]


async def _start(broker: Broker) -> asyncio.Task[list[Job]]:
    return asyncio.create_task(claim(broker, "other", wait=DAY))
