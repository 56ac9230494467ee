"""settle: complete and release; applied, repeated, lost, missing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from dibs.broker.protocol import Ending
from dibs.domain.job import Outcome, Ref, Status
from dibs.domain.retry import SECOND
from dibs.testing.conformance.broker.base import Suite
from dibs.testing.conformance.broker.verbs import (
    AT_ONCE,
    claim,
    claim_one,
    complete,
    enqueue,
    enqueue_some,
    events,
    every_verb,
    fail,
    read,
    release,
    settle,
    settle_one,
    take,
)
from dibs.testing.conformance.builders import FOREVER

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.broker.protocol import Broker
    from dibs.clock import FakeClock
    from dibs.domain.job import Job

VERBS: dict[str, Callable[[Job], Ending]] = {
    "complete": complete,
    "fail": lambda job: fail(job, delay=0),
    "fail by its name": lambda job: fail(job, delay=0, told=False),
    "fail for good": lambda job: fail(job, retryable=False),
    "release": release,
}


class SettleSuite(Suite):
    """Ending a claim, but for failures."""

    @pytest.mark.parametrize("result", [None, 0, "", [], {"b": 1, "a": [None, "☃"]}], ids=repr)
    async def test_settle_complete(self, broker: Broker, clock: FakeClock, result: Any) -> None:
        job = await take(broker)
        clock.advance(5)
        settled = await settle_one(broker, complete(job, result))

        after = await read(broker, job.id)
        assert (settled.outcome, settled.will_retry) == (Outcome.APPLIED, False)
        assert settled.status is Status.COMPLETED
        assert (after.status, after.result, after.attempts, after.error) == (Status.COMPLETED, result, 1, None)
        assert (after.completed_us, after.updated_us, after.fence) == (clock.now(), clock.now(), 1)
        assert await events(broker, job.id) == ["enqueued", "claimed", "completed"]

    async def test_settle_complete_clears_the_error_of_an_earlier_attempt(self, broker: Broker) -> None:
        await settle(broker, fail(await take(broker), delay=0))
        again = await claim_one(broker)
        await settle(broker, complete(again))

        after = await read(broker, again.id)
        assert (after.status, after.error, after.attempts) == (Status.COMPLETED, None, 2)

    async def test_settle_release_is_as_if_it_had_not_been_claimed(self, broker: Broker, clock: FakeClock) -> None:
        job = await take(broker)
        clock.advance(5)
        settled = await settle_one(broker, release(job))

        after = await read(broker, job.id)
        assert (settled.outcome, settled.will_retry) == (Outcome.APPLIED, True)
        assert (after.status, after.attempts, after.due_us) == (Status.PENDING, 0, job.due_us)
        assert (await claim_one(broker)).fence == 2
        assert await events(broker, job.id) == ["enqueued", "claimed", "released", "claimed"]

    @pytest.mark.parametrize("delay", [0, 30])
    async def test_settle_release_for_later(self, broker: Broker, clock: FakeClock, delay: int) -> None:
        job = await take(broker, max_attempts=1)
        clock.advance(5)
        await settle(broker, release(job, delay))

        after = await read(broker, job.id)
        assert (after.status, after.attempts, after.due_us) == (Status.PENDING, 0, clock.now() + delay * SECOND)
        clock.advance(delay)
        assert len(await claim(broker)) == 1

    async def test_settle_release_without_end_costs_no_attempt(self, broker: Broker) -> None:
        await enqueue(broker, max_attempts=1)
        for turn in range(5):
            job = await claim_one(broker)
            assert (job.attempts, job.fence) == (0, turn + 1)
            assert await settle(broker, release(job)) == [Outcome.APPLIED]

    @pytest.mark.parametrize("verb", VERBS)
    async def test_settle_twice_answers_as_the_first_time(self, broker: Broker, verb: str) -> None:
        job = await take(broker)
        first = await settle_one(broker, VERBS[verb](job))
        after = await read(broker, job.id)
        second = await settle_one(broker, VERBS[verb](job))

        assert (first.outcome, second.outcome) == (Outcome.APPLIED, Outcome.REPEATED)
        assert (second.status, second.will_retry) == (first.status, first.will_retry)
        assert await read(broker, job.id) == after
        assert len(await events(broker, job.id)) == 3

    @pytest.mark.parametrize("first", VERBS)
    @pytest.mark.parametrize("second", VERBS)
    async def test_settle_otherwise_is_lost(self, broker: Broker, first: str, second: str) -> None:
        job = await take(broker)
        await settle(broker, VERBS[first](job))
        before = await read(broker, job.id)
        outcome = (await settle_one(broker, VERBS[second](job))).outcome

        same = first[:4] == second[:4]
        assert outcome is (Outcome.REPEATED if same else Outcome.LOST)
        assert await read(broker, job.id) == before

    @pytest.mark.parametrize("verb", VERBS)
    async def test_settle_needs_fence_and_token(self, broker: Broker, verb: str) -> None:
        job, other = await take(broker), await take(broker)
        before = await read(broker, job.id)
        for ref in (
            Ref(job.id, job.fence, "guessed"),
            Ref(job.id, job.fence + 1, job.lease_token),
            Ref(job.id, other.fence, other.lease_token),
        ):
            assert await every_verb(broker, job, ref) == [Outcome.LOST] * 7
        assert await read(broker, job.id) == before
        assert await settle(broker, VERBS[verb](job), complete(other)) == [Outcome.APPLIED] * 2

    async def test_settle_a_job_that_is_not_there(self, broker: Broker) -> None:
        job = await take(broker)
        gone = Ref("gone", 1, "token")
        told, untold = fail(job, ref=gone), fail(job, ref=gone, told=False)

        for ending in (complete(job, ref=gone), told, untold, release(job, ref=gone)):
            settled = await settle_one(broker, ending)
            assert (settled.outcome, settled.status, settled.will_retry) == (Outcome.MISSING, None, False)

    async def test_settle_a_job_that_is_not_kept(self, broker: Broker) -> None:
        job = await take(broker, retention=0)
        settled = await settle_one(broker, complete(job, "seen once"))

        assert settled == (Outcome.APPLIED, Status.COMPLETED)
        assert await broker.get(job.id) is None
        assert await settle(broker, complete(job)) == [Outcome.MISSING]

    async def test_settle_a_lease_that_ran_out_but_was_not_taken_over(self, broker: Broker, clock: FakeClock) -> None:
        job = await take(broker, claim_lease=1)
        clock.advance(FOREVER)

        assert await settle(broker, complete(job)) == [Outcome.APPLIED]

    async def test_settle_many_each_for_itself(self, broker: Broker) -> None:
        await enqueue_some(broker, 5)
        one, two, three, four, five = await claim(broker)
        gone = Ref("gone", 1, "token")
        await settle(broker, complete(four))

        outcomes = await settle(
            broker,
            fail(one, ref=gone, told=False),
            complete(one),
            complete(one),
            fail(two, told=False),
            release(three),
            release(four),
            Ending(five.ref, "complete"),
        )

        assert outcomes == ["missing", "applied", "repeated", "applied", "applied", "lost", "applied"]
        assert await broker.settle([]) == []

    async def test_settle_at_once_takes_effect_once(self, broker: Broker) -> None:
        job = await take(broker)
        outcomes = await asyncio.gather(*(settle(broker, complete(job, n)) for n in range(10)))

        assert sorted(outcome for [outcome] in outcomes) == [Outcome.APPLIED] + [Outcome.REPEATED] * 9
        assert (await read(broker, job.id)).attempts == 1

    async def test_settle_after_a_redrive_still_answers_as_the_first_time(self, broker: Broker) -> None:
        job = await take(broker)
        await settle(broker, complete(job))
        await broker.redrive([job.id])

        assert await settle(broker, complete(job)) == [Outcome.REPEATED]
        assert (await read(broker, job.id)).status is Status.PENDING
        await claim_one(broker)
        assert await settle(broker, complete(job)) == [Outcome.LOST]

    async def test_settle_after_the_next_claim_is_lost(self, broker: Broker) -> None:
        job = await take(broker, retry=AT_ONCE)
        await settle(broker, fail(job))
        await claim_one(broker)

        assert await every_verb(broker, job) == [Outcome.LOST] * 7
