"""extend: a claim is kept, and never shortened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.domain.job import Extension, Outcome, Ref
from dibs.domain.retry import SECOND
from dibs.testing.conformance.broker.base import Suite
from dibs.testing.conformance.broker.verbs import (
    claim,
    claim_one,
    complete,
    events,
    extend,
    read,
    reap,
    release,
    settle,
    take,
)
from dibs.testing.conformance.builders import FOREVER

if TYPE_CHECKING:
    from dibs.broker.protocol import Broker
    from dibs.clock import FakeClock


class ExtendSuite(Suite):
    """Keeping a claim."""

    async def test_extend_by_the_claim_s_own_lease(self, broker: Broker, clock: FakeClock) -> None:
        job = await take(broker, claim_lease=10, lease=100)
        clock.advance(7)

        assert await extend(broker, job.ref) == [Outcome.APPLIED]
        assert (await read(broker, job.id)).lease_expires_us == clock.now() + 10 * SECOND
        assert await events(broker, job.id) == ["enqueued", "claimed"]  # nothing changed hands

    async def test_extend_keeps_the_job_for_as_long_as_it_is_called(self, broker: Broker, clock: FakeClock) -> None:
        job = await take(broker, claim_lease=10)
        for _ in range(5):
            clock.advance(9)
            assert await extend(broker, job.ref) == [Outcome.APPLIED]
            await reap(broker)

        assert await claim(broker) == []
        assert await settle(broker, complete(job)) == [Outcome.APPLIED]

    async def test_extend_never_shortens(self, broker: Broker, clock: FakeClock) -> None:
        job = await take(broker, claim_lease=10)
        clock.advance(-5)

        assert await extend(broker, job.ref) == [Outcome.APPLIED]
        assert (await read(broker, job.id)).lease_expires_us == job.lease_expires_us

    async def test_extend_a_lease_that_ran_out_but_was_not_taken_over(self, broker: Broker, clock: FakeClock) -> None:
        job = await take(broker, claim_lease=10)
        clock.advance(FOREVER)

        assert await extend(broker, job.ref) == [Outcome.APPLIED]
        await reap(broker)
        assert (await read(broker, job.id)).fence == 1
        assert await settle(broker, complete(job)) == [Outcome.APPLIED]

    async def test_extend_answers_each_for_itself(self, broker: Broker) -> None:
        held, lost, done = [await take(broker) for _ in range(3)]
        await settle(broker, release(lost), complete(done))

        assert await extend(broker, lost.ref, held.ref, done.ref, Ref("none", 1, "token")) == [
            Outcome.LOST,
            Outcome.APPLIED,
            Outcome.LOST,
            Outcome.LOST,
        ]
        assert await extend(broker) == []

    async def test_extend_needs_fence_and_token(self, broker: Broker) -> None:
        job, other = await take(broker), await take(broker)
        wrong = [
            Ref(job.id, job.fence, "guessed"),
            Ref(job.id, job.fence + 1, job.lease_token),
            Ref(other.id, job.fence, job.lease_token),
        ]

        assert await extend(broker, *wrong) == [Outcome.LOST] * 3

    async def test_extend_tells_how_far_the_work_has_come(self, broker: Broker) -> None:
        job = await take(broker)
        assert await broker.extend([Extension(job.ref, 0.5, "halfway ☃")]) == [Outcome.APPLIED]
        half = await read(broker, job.id)
        await extend(broker, job.ref)
        still = await read(broker, job.id)
        await broker.extend([Extension(job.ref, 1)])
        whole = await read(broker, job.id)

        assert (half.progress, half.progress_note) == (0.5, "halfway ☃")
        assert (still.progress, still.progress_note) == (0.5, "halfway ☃")
        assert (whole.progress, whole.progress_note) == (1, "")

    async def test_extend_of_a_lost_claim_tells_no_progress(self, broker: Broker) -> None:
        job = await take(broker)
        await settle(broker, release(job))
        again = await claim_one(broker)

        assert await broker.extend([Extension(job.ref, 0.9)]) == [Outcome.LOST]
        assert (await read(broker, job.id)).progress is None
        assert await extend(broker, again.ref) == [Outcome.APPLIED]
