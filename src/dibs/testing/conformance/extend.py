"""extend: a claim is kept for another lease, and by its holder alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from dibs.domain.job import Extension, Outcome, Ref
from dibs.domain.retry import SECOND
from dibs.testing.conformance.base import Suite
from dibs.testing.conformance.builders import (
    US,
    claim,
    claim_one,
    completed,
    enqueue,
    enqueue_and_claim,
    ids,
    new_job,
    new_jobs,
    read,
    reap,
    released,
    settle,
)

if TYPE_CHECKING:
    from dibs.clock import FakeClock
    from dibs.domain.job import Job
    from dibs.store import Store


async def extend(store: Store, *jobs: Job) -> list[Outcome]:
    """Extend the claims that these jobs were returned under."""
    return await store.extend([Extension(job.ref) for job in jobs])


class ExtendSuite(Suite):
    """Heartbeats."""

    async def test_extend_moves_the_lease_end(self, store: Store, clock: FakeClock) -> None:
        job = await enqueue_and_claim(store, lease=30)
        clock.advance(10)

        assert await extend(store, job) == [Outcome.APPLIED]

        after = await read(store, job.id)
        assert (after.lease_expires_us, after.updated_us) == (clock.now() + 30 * SECOND, clock.now())
        assert after == msgspec.structs.replace(
            job, lease_token="", lease_expires_us=after.lease_expires_us, updated_us=after.updated_us
        )

    async def test_extend_uses_the_length_of_the_claim_not_of_the_job(self, store: Store, clock: FakeClock) -> None:
        job = await enqueue_and_claim(store, new_job(lease=300), lease=7)
        clock.advance(5)
        await extend(store, job)

        assert (await read(store, job.id)).lease_expires_us == clock.now() + 7 * SECOND

    async def test_extend_never_shortens(self, store: Store, clock: FakeClock) -> None:
        job = await enqueue_and_claim(store, lease=30)
        clock.advance(20)
        await extend(store, job)
        end = (await read(store, job.id)).lease_expires_us
        clock.advance(-15)

        assert await extend(store, job) == [Outcome.APPLIED]
        assert (await read(store, job.id)).lease_expires_us == end == clock.now() + 45 * SECOND

    async def test_extend_keeps_a_job_from_being_reaped(self, store: Store, clock: FakeClock) -> None:
        job = await enqueue_and_claim(store, lease=30)
        for _ in range(5):
            clock.advance(30 - US)
            assert await store.expired(10) == []
            assert await extend(store, job) == [Outcome.APPLIED]
        clock.advance(30)

        assert ids(await store.expired(10)) == [job.id]

    async def test_extend_of_a_lease_that_ran_out_and_that_no_one_took(self, store: Store, clock: FakeClock) -> None:
        job = await enqueue_and_claim(store, lease=30)
        clock.advance(1000)
        assert ids(await store.expired(10)) == [job.id]

        assert await extend(store, job) == [Outcome.APPLIED]
        assert await store.expired(10) == []
        assert await settle(store, completed(job)) == [Outcome.APPLIED]

    async def test_extend_after_the_job_was_reaped_is_lost(self, store: Store, clock: FakeClock) -> None:
        job = await enqueue_and_claim(store, lease=30)
        clock.advance(30)
        await reap(store, clock)

        assert await extend(store, job) == [Outcome.LOST]

    async def test_extend_after_another_claimed_it_is_lost(self, store: Store) -> None:
        first = await enqueue_and_claim(store, new_job(), under="same")
        await settle(store, released(first))
        second = await claim_one(store, under="same")

        assert await extend(store, first) == [Outcome.LOST]  # the token alone is not enough
        assert await extend(store, second) == [Outcome.APPLIED]

    @pytest.mark.parametrize("fence", [-1, 0, 2, 2**62])
    async def test_extend_compares_the_fence(self, store: Store, fence: int) -> None:
        job = await enqueue_and_claim(store)

        assert await store.extend([Extension(Ref(job.id, fence, job.lease_token))]) == [Outcome.LOST]

    @pytest.mark.parametrize("token", ["", "other", "TOKEN", "token ", "toke", "tökén"])
    async def test_extend_compares_the_token(self, store: Store, clock: FakeClock, token: str) -> None:
        job = await enqueue_and_claim(store, new_job(), under="token")
        before = await read(store, job.id)
        clock.advance(1)

        assert await store.extend([Extension(Ref(job.id, 1, token), 0.5, "no")]) == [Outcome.LOST]
        assert await read(store, job.id) == before

    async def test_extend_of_a_job_that_is_not_claimed_is_lost(self, store: Store) -> None:
        await enqueue(store, new_job("a"))

        assert await store.extend([Extension(Ref("a", 0, "")), Extension(Ref("none", 1, "x"))]) == [Outcome.LOST] * 2

    async def test_extend_answers_each_for_itself(self, store: Store, clock: FakeClock) -> None:
        await enqueue(store, *new_jobs(4))
        a, b, c, d = await claim(store, lease=10)
        await settle(store, completed(b))
        clock.advance(5)

        assert await extend(store, d, b, a, d) == [Outcome.APPLIED, Outcome.LOST, Outcome.APPLIED, Outcome.APPLIED]

        ends = [(await read(store, job.id)).lease_expires_us for job in (a, c, d)]
        assert ends == [clock.now() + 10 * SECOND, clock.now() + 5 * SECOND, clock.now() + 10 * SECOND]

    async def test_extend_of_nothing(self, store: Store) -> None:
        assert await store.extend([]) == []

    async def test_extend_keeps_the_progress(self, store: Store) -> None:
        job = await enqueue_and_claim(store)

        await store.extend([Extension(job.ref, 0.25, "a quarter · 🦆")])
        said = await read(store, job.id)
        await extend(store, job)
        silent = await read(store, job.id)
        await store.extend([Extension(job.ref, 1.0)])
        done = await read(store, job.id)

        assert (said.progress, said.progress_note) == (0.25, "a quarter · 🦆")
        assert (silent.progress, silent.progress_note) == (0.25, "a quarter · 🦆")
        assert (done.progress, done.progress_note) == (1.0, "")

    async def test_extend_writes_no_event(self, store: Store) -> None:
        job = await enqueue_and_claim(store)
        log = await store.log(job.id)
        await store.extend([Extension(job.ref, 0.5, "half")])

        assert await store.log(job.id) == log
        assert (await read(store, job.id)).events == 2
