"""settle: failures. Another attempt after a while, or the dead letter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.domain.job import Error, Outcome, Status
from dibs.domain.retry import SECOND, Backoff
from dibs.testing.conformance.broker.base import Suite
from dibs.testing.conformance.broker.verbs import (
    AT_ONCE,
    claim,
    claim_one,
    enqueue,
    enqueue_some,
    events,
    fail,
    read,
    settle,
    settle_one,
    take,
)

if TYPE_CHECKING:
    from dibs.broker.protocol import Broker
    from dibs.clock import FakeClock


class FailSuite(Suite):
    """Failing."""

    @pytest.mark.parametrize("told", [True, False], ids=["with the job", "by its name"])
    async def test_fail_is_tried_again(self, broker: Broker, clock: FakeClock, *, told: bool) -> None:
        job = await take(broker)
        settled = await settle_one(broker, fail(job, error=Error("no route", "OSError", "E1", "at line 3"), told=told))

        after = await read(broker, job.id)
        assert (settled.outcome, settled.will_retry) == (Outcome.APPLIED, True)
        assert (after.status, after.attempts, after.completed_us) == (Status.PENDING, 1, None)
        assert after.error == Error("no route", "OSError", "E1", "at line 3")
        assert clock.now() <= after.due_us <= clock.now() + SECOND
        assert await events(broker, job.id) == ["enqueued", "claimed", "retried"]
        assert "no route" in (await broker.log(job.id))[-1].note

    @pytest.mark.parametrize("told", [True, False], ids=["with the job", "by its name"])
    async def test_fail_for_good(self, broker: Broker, clock: FakeClock, *, told: bool) -> None:
        job = await take(broker)
        settled = await settle_one(broker, fail(job, retryable=False, told=told))

        after = await read(broker, job.id)
        assert (settled.outcome, settled.will_retry) == (Outcome.APPLIED, False)
        assert (after.status, after.attempts, after.completed_us) == (Status.FAILED, 1, clock.now())
        assert await events(broker, job.id) == ["enqueued", "claimed", "failed"]

    @pytest.mark.parametrize("told", [True, False], ids=["with the job", "by its name"])
    @pytest.mark.parametrize("attempts", [1, 2, 5])
    async def test_fail_until_no_attempt_is_left(self, broker: Broker, attempts: int, *, told: bool) -> None:
        job = await enqueue(broker, max_attempts=attempts)
        for attempt in range(1, attempts + 1):
            settled = await settle_one(broker, fail(await claim_one(broker), delay=0, told=told))
            assert settled.will_retry == (attempt < attempts)

        after = await read(broker, job.id)
        assert (after.status, after.attempts, after.fence) == (Status.FAILED, attempts, attempts)
        assert await claim(broker) == []
        assert await events(broker, job.id) == (
            ["enqueued"] + ["claimed", "retried"] * (attempts - 1) + ["claimed", "failed"]
        )

    @pytest.mark.parametrize("delay", [0, 0.5, 7200])
    async def test_fail_and_ask_for_a_delay(self, broker: Broker, clock: FakeClock, delay: float) -> None:
        job = await take(broker, retry=Backoff(5, 5))
        await settle(broker, fail(job, delay=delay))

        assert (await read(broker, job.id)).due_us == clock.now() + delay * SECOND
        clock.advance(delay)
        assert len(await claim(broker)) == 1

    async def test_fail_backs_off_within_a_range_that_doubles_up_to_a_cap(
        self, broker: Broker, clock: FakeClock
    ) -> None:
        jobs = await enqueue_some(broker, 40, max_attempts=10, retry=Backoff(base=2, cap=10))
        for ceiling in (2, 4, 8, 10, 10):
            held = await claim(broker)
            assert len(held) == len(jobs)
            settled = await broker.settle([fail(job) for job in held])
            assert settled == [(Outcome.APPLIED, Status.PENDING)] * len(jobs)
            waits = [((await read(broker, job.id)).due_us - clock.now()) / SECOND for job in jobs]
            assert all(0 <= wait <= ceiling for wait in waits)
            # Full jitter: among forty, some wait hardly at all and some for nearly all of it.
            assert min(waits) < ceiling / 4
            assert max(waits) > ceiling * 3 / 4
            assert len(set(waits)) > len(jobs) / 2
            clock.advance(ceiling)

    async def test_fail_without_a_back_off(self, broker: Broker, clock: FakeClock) -> None:
        job = await take(broker, retry=AT_ONCE)
        await settle(broker, fail(job))

        assert (await read(broker, job.id)).due_us == clock.now()

    async def test_fail_keeps_the_last_error(self, broker: Broker) -> None:
        await settle(broker, fail(await take(broker), delay=0, error=Error("first")))
        again = await claim_one(broker)
        assert again.error == Error("first")
        await settle(broker, fail(again, delay=0, error=Error("second")))

        assert (await read(broker, again.id)).error == Error("second")
