"""explain: why a job is not running, in a code and in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.domain.errors import NotFound
from dibs.domain.job import Error
from dibs.testing.conformance.broker.base import Suite
from dibs.testing.conformance.broker.verbs import complete, enqueue, fail, settle, take

if TYPE_CHECKING:
    from dibs.broker.protocol import Broker
    from dibs.clock import FakeClock


async def why(broker: Broker, id: str, *words: str) -> str:
    """Have a job explained; the message must say so much."""
    explanation = await broker.explain(id)
    assert explanation.job.id == id
    for word in words:
        assert word in explanation.message
    return explanation.code


class ExplainSuite(Suite):
    """Explaining, in every state."""

    async def test_explain_no_job(self, broker: Broker) -> None:
        with pytest.raises(NotFound):
            await broker.explain("none")

    async def test_explain_a_job_that_is_due(self, broker: Broker, clock: FakeClock) -> None:
        job = await enqueue(broker, "resize", queue="images")
        clock.advance(7)

        assert await why(broker, job.id, "resize", "images", "7.0 s") == "ready"

    async def test_explain_says_whether_a_worker_takes_it(self, broker: Broker, clock: FakeClock) -> None:
        job = await enqueue(broker, "resize", queue="images")
        assert await why(broker, job.id, "no worker is known that takes it") == "ready"
        await broker.beat("other-task", metadata={"tasks": ["mail"], "queues": None})
        await broker.beat("other-queue", metadata={"tasks": ["resize"], "queues": ["default"]})
        await why(broker, job.id, "no worker is known that takes it")
        await broker.beat("says-nothing", metadata={"tasks": "all", "queues": 5})
        await why(broker, job.id, "says-nothing")
        await broker.beat("resizer", metadata={"tasks": ["mail", "resize"], "queues": ["images"]})
        await why(broker, job.id, "resizer", "says-nothing")

        await broker.retire("says-nothing")
        clock.advance(31)
        await why(broker, job.id, "no worker is known that takes it")  # nor do the stale

    async def test_explain_a_job_for_later(self, broker: Broker) -> None:
        job = await enqueue(broker, delay=90)

        assert await why(broker, job.id, "90.0 s") == "not_due"

    async def test_explain_a_job_that_is_tried_again(self, broker: Broker) -> None:
        job = await take(broker)
        await settle(broker, fail(job, delay=30))

        assert await why(broker, job.id, "30.0 s", "1 of 3") == "not_due"

    async def test_explain_a_job_of_a_paused_queue(self, broker: Broker) -> None:
        job = await enqueue(broker, queue="images")
        await broker.pause("images")

        assert await why(broker, job.id, "images", "paused") == "paused"

    async def test_explain_a_claimed_job(self, broker: Broker, clock: FakeClock) -> None:
        job = await take(broker, "worker-7", claim_lease=20)
        clock.advance(5)
        assert await why(broker, job.id, "worker-7", "15.0 s") == "claimed"

        clock.advance(20)
        assert await why(broker, job.id, "worker-7", "ran out") == "claimed"

    async def test_explain_a_finished_job(self, broker: Broker) -> None:
        done, dead, stopped = [await take(broker) for _ in range(3)]
        await settle(broker, complete(done), fail(dead, retryable=False, error=Error("no route", "OSError")))
        await broker.cancel([stopped.id])

        assert await why(broker, done.id, "completed") == "finished"
        assert await why(broker, dead.id, "OSError", "no route", "Redrive") == "finished"
        assert await why(broker, stopped.id, "cancelled") == "finished"
