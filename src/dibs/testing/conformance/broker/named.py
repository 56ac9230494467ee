"""claim: one job, by its id."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from dibs.broker.protocol import Ask
from dibs.domain.errors import InvalidRequest, NotClaimable, NotFound
from dibs.testing.conformance.broker.base import Suite
from dibs.testing.conformance.broker.verbs import (
    AT_ONCE,
    claim,
    claim_one,
    complete,
    enqueue,
    enqueue_some,
    fail,
    settle,
    take,
)

if TYPE_CHECKING:
    from dibs.broker.protocol import Broker
    from dibs.clock import FakeClock


async def refused(broker: Broker, id: str, **asked: Any) -> str:
    """Claim a job that cannot be; say the reason."""
    with pytest.raises(NotClaimable) as raised:
        await claim(broker, "other", id=id, **asked)
    assert raised.value.code == raised.value.reason
    assert raised.value.http_status == 409
    assert raised.value.message
    return raised.value.reason


class NamedSuite(Suite):
    """That one, or an error that says why not."""

    async def test_claim_by_id_takes_that_one(self, broker: Broker) -> None:
        _, wanted, _ = await enqueue_some(broker, 3)
        [job] = await claim(broker, id=wanted.id)

        assert (job.id, job.fence) == (wanted.id, 1)
        assert (await broker.counts()).claimed == 1

    async def test_claim_by_id_of_no_job(self, broker: Broker) -> None:
        with pytest.raises(NotFound) as raised:
            await claim(broker, id="none")

        assert raised.value.code == "not_found"

    async def test_claim_by_id_of_a_claimed_job(self, broker: Broker) -> None:
        job = await take(broker)

        assert await refused(broker, job.id) == "claimed"
        with pytest.raises(NotClaimable, match="Task already claimed by another worker"):
            await claim(broker, id=job.id)

    async def test_claim_by_id_of_a_job_that_is_not_due(self, broker: Broker, clock: FakeClock) -> None:
        job = await enqueue(broker, delay=10)

        assert await refused(broker, job.id) == "not_due"
        clock.advance(10)
        assert (await claim_one(broker, id=job.id)).id == job.id

    async def test_claim_by_id_from_a_paused_queue(self, broker: Broker) -> None:
        job = await enqueue(broker, queue="q")
        await broker.pause("q")

        assert await refused(broker, job.id) == "paused"
        await broker.resume("q")
        assert (await claim_one(broker, id=job.id)).id == job.id

    @pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
    async def test_claim_by_id_of_a_finished_job(self, broker: Broker, end: str) -> None:
        job = await take(broker)
        if end == "cancelled":
            await broker.cancel([job.id])
        else:
            await settle(broker, complete(job) if end == "completed" else fail(job, retryable=False))

        assert await refused(broker, job.id) == "finished"

    async def test_claim_by_id_of_a_job_that_is_something_else(self, broker: Broker) -> None:
        job = await enqueue(broker, "task", queue="q")

        assert await refused(broker, job.id, tasks=["other"]) == "limited"
        assert await refused(broker, job.id, queues=["other"]) == "limited"
        assert (await claim_one(broker, id=job.id, tasks=["task"], queues=["q"])).id == job.id

    async def test_claim_by_id_of_a_job_that_was_tried_too_often(self, broker: Broker) -> None:
        job = await enqueue(broker, max_attempts=2)

        assert await refused(broker, job.id, min_attempts_left=3) == "limited"
        assert (await claim_one(broker, id=job.id, min_attempts_left=2)).id == job.id

    async def test_claim_by_id_needs_no_reaper(self, broker: Broker, clock: FakeClock) -> None:
        job = await take(broker, claim_lease=10, retry=AT_ONCE)
        clock.advance(10)

        assert (await claim_one(broker, "other", id=job.id)).fence == 2

    async def test_claim_by_id_cannot_wait(self, broker: Broker) -> None:
        with pytest.raises(InvalidRequest) as raised:
            await broker.claim(Ask(worker_id="worker", id="a", wait=1))

        assert raised.value.fields == ("wait",)

    async def test_claim_by_id_at_once_goes_to_one(self, broker: Broker) -> None:
        job = await enqueue(broker)
        answers = await asyncio.gather(
            *(claim(broker, f"worker-{n}", id=job.id) for n in range(10)), return_exceptions=True
        )

        assert [type(answer) for answer in answers].count(list) == 1
        assert {answer.reason for answer in answers if isinstance(answer, NotClaimable)} == {"claimed"}
        assert sum(isinstance(answer, NotClaimable) for answer in answers) == 9
