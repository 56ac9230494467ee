"""Crashes and zombies: who died is replaced, and who comes back too late changes nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from dibs.domain.job import Outcome, Ref, Status
from dibs.domain.retry import SECOND, Backoff
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
    extend,
    fail,
    read,
    reap,
    release,
    settle,
    take,
)
from dibs.testing.conformance.builders import FOREVER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from dibs.broker.protocol import Broker
    from dibs.clock import FakeClock
    from dibs.domain.job import Job

LEASE = 10
LOST = [Outcome.LOST] * 7


async def _expire(broker: Broker, clock: FakeClock, _: Job) -> None:
    clock.advance(LEASE)
    await reap(broker)


async def _take_over(broker: Broker, clock: FakeClock, job: Job) -> None:
    clock.advance(LEASE)
    assert (await claim_one(broker, "successor", id=job.id)).fence == job.fence + 1


async def _finish_over(broker: Broker, clock: FakeClock, job: Job) -> None:
    clock.advance(LEASE)
    await settle(broker, complete(await claim_one(broker, "successor", id=job.id), "the successor's"))


async def _cancel(broker: Broker, _: FakeClock, job: Job) -> None:
    await broker.cancel([job.id])


async def _cancel_and_redrive(broker: Broker, _: FakeClock, job: Job) -> None:
    await broker.cancel([job.id])
    await broker.redrive([job.id])


async def _fail_over(broker: Broker, clock: FakeClock, job: Job) -> None:
    clock.advance(LEASE)
    await settle(broker, fail(await claim_one(broker, "successor", id=job.id), retryable=False))


async def _release_over(broker: Broker, clock: FakeClock, job: Job) -> None:
    clock.advance(LEASE)
    await settle(broker, release(await claim_one(broker, "successor", id=job.id)))


OVERTAKEN: list[Callable[[Broker, FakeClock, Job], Awaitable[None]]] = [
    _expire,
    _take_over,
    _finish_over,
    _fail_over,
    _release_over,
    _cancel,
    _cancel_and_redrive,
]


class CrashSuite(Suite):
    """A claim that was never settled, and a holder that was taken over."""

    async def test_crash_counts_as_an_attempt(self, broker: Broker, clock: FakeClock) -> None:
        job = await take(broker, "victim", claim_lease=LEASE)
        clock.advance(LEASE)
        await reap(broker)

        after = await read(broker, job.id)
        assert (after.status, after.attempts, after.fence) == (Status.PENDING, 1, 1)
        assert after.error is not None
        assert (after.error.kind, "victim" in after.error.message) == ("lease_expired", True)
        assert await events(broker, job.id) == ["enqueued", "claimed", "expired"]

    async def test_crash_backs_off_like_a_failure(self, broker: Broker, clock: FakeClock) -> None:
        await enqueue_some(broker, 40, retry=Backoff(base=8, cap=8))
        held = await claim(broker, lease=LEASE)
        clock.advance(LEASE)
        await reap(broker)

        waits = [((await read(broker, job.id)).due_us - clock.now()) / SECOND for job in held]
        assert all(0 <= wait <= 8 for wait in waits)
        assert min(waits) < 2
        assert max(waits) > 6

    @pytest.mark.parametrize("attempts", [1, 3])
    async def test_crash_again_and_again_ends_in_the_dead_letter(
        self, broker: Broker, clock: FakeClock, attempts: int
    ) -> None:
        """A poison job: it kills every worker that takes it."""
        poison = await enqueue(broker, max_attempts=attempts)
        for turn in range(1, attempts + 1):
            victim = await claim_one(broker, f"victim-{turn}", lease=LEASE)
            assert (victim.fence, victim.attempts) == (turn, turn - 1)
            clock.advance(LEASE)
            await reap(broker)
            clock.advance(FOREVER)

        after = await read(broker, poison.id)
        assert (after.status, after.attempts, after.fence) == (Status.FAILED, attempts, attempts)
        assert after.error is not None
        assert after.error.kind == "lease_expired"
        assert after.completed_us is not None
        assert await claim(broker) == []
        assert await events(broker, poison.id) == ["enqueued"] + ["claimed", "expired"] * attempts
        assert (await broker.verify()).ok

    async def test_crash_of_many_workers_at_once_loses_nothing(self, broker: Broker, clock: FakeClock) -> None:
        await enqueue_some(broker, 50, retry=AT_ONCE)
        held = [job for n in range(10) for job in await claim(broker, f"victim-{n}", limit=5, lease=LEASE)]
        clock.advance(LEASE)
        again = await asyncio.gather(*(claim(broker, f"heir-{n}", limit=5) for n in range(10)))

        heirs = [job for jobs in again for job in jobs]
        rest = await claim(broker)
        assert sorted(job.id for job in [*heirs, *rest]) == sorted(job.id for job in held)
        assert {job.fence for job in [*heirs, *rest]} == {2}

    @pytest.mark.parametrize("overtake", OVERTAKEN, ids=lambda function: function.__name__.strip("_"))
    async def test_zombie_changes_nothing(
        self, broker: Broker, clock: FakeClock, overtake: Callable[[Broker, FakeClock, Job], Awaitable[None]]
    ) -> None:
        zombie = await take(broker, "zombie", claim_lease=LEASE, retry=AT_ONCE)
        await overtake(broker, clock, zombie)
        before, log = await read(broker, zombie.id), await broker.log(zombie.id)

        assert await every_verb(broker, zombie) == LOST
        assert await read(broker, zombie.id) == before
        assert await broker.log(zombie.id) == log

    async def test_zombie_of_the_same_name_holds_nothing(self, broker: Broker, clock: FakeClock) -> None:
        """A worker that was restarted under its predecessor's name."""
        before = await take(broker, "worker-1", claim_lease=LEASE, retry=AT_ONCE)
        clock.advance(LEASE)
        after = await claim_one(broker, "worker-1", id=before.id)

        assert await every_verb(broker, before) == LOST
        assert await every_verb(broker, after, Ref(after.id, after.fence, before.lease_token)) == LOST
        assert await every_verb(broker, after, Ref(after.id, before.fence, after.lease_token)) == LOST
        assert await settle(broker, complete(after)) == [Outcome.APPLIED]

    async def test_zombie_sees_its_successor_finish(self, broker: Broker, clock: FakeClock) -> None:
        zombie = await take(broker, claim_lease=LEASE, retry=AT_ONCE)
        clock.advance(LEASE)
        heir = await claim_one(broker, "heir")

        assert await settle(broker, complete(zombie, "stale")) == [Outcome.LOST]
        assert await settle(broker, complete(heir, "fresh")) == [Outcome.APPLIED]
        assert await settle(broker, complete(zombie, "stale")) == [Outcome.LOST]
        assert await settle(broker, complete(heir, "fresh")) == [Outcome.REPEATED]
        assert (await read(broker, heir.id)).result == "fresh"

    async def test_zombie_that_extends_just_in_time_is_none(self, broker: Broker, clock: FakeClock) -> None:
        job = await take(broker, claim_lease=LEASE)
        clock.advance(LEASE)
        assert await extend(broker, job.ref) == [Outcome.APPLIED]
        await reap(broker)

        assert await settle(broker, complete(job)) == [Outcome.APPLIED]

    async def test_zombies_of_every_claim_are_refused(self, broker: Broker, clock: FakeClock) -> None:
        await enqueue(broker, max_attempts=10, retry=AT_ONCE)
        past: list[Job] = []
        for turn in range(5):
            past.append(await claim_one(broker, lease=LEASE))
            assert past[-1].fence == turn + 1
            clock.advance(LEASE)
        last = await claim_one(broker)

        for zombie in past:
            assert await every_verb(broker, zombie) == LOST
        assert await settle(broker, complete(last)) == [Outcome.APPLIED]
        assert (await broker.verify()).ok
