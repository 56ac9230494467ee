"""expired, and the write that takes a claim away: a crash is noticed, counted and survived."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from dibs.domain import transitions
from dibs.domain.job import EventName, Extension, Outcome, Status
from dibs.domain.retry import SECOND, Backoff
from dibs.testing.conformance.base import Suite
from dibs.testing.conformance.builders import (
    FOREVER,
    US,
    claim,
    claim_one,
    completed,
    enqueue,
    enqueue_and_claim,
    expired,
    ids,
    new_job,
    new_jobs,
    read,
    reap,
    settle,
)

if TYPE_CHECKING:
    from dibs.clock import FakeClock
    from dibs.store import Store


class ReapSuite(Suite):
    """Leases that ran out."""

    async def test_expired_lists_a_lease_from_its_end_on(self, store: Store, clock: FakeClock) -> None:
        job = await enqueue_and_claim(store, lease=30)
        clock.advance(30 - US)
        assert await store.expired(10) == []

        clock.advance(US)
        assert await store.expired(10) == [replace(job, lease_token="")]

    async def test_expired_lists_the_longest_ago_first(self, store: Store, clock: FakeClock) -> None:
        await enqueue(store, *(new_job(id) for id in "abcd"))
        for id, lease in zip("abcd", (3, 1, 2, 9), strict=True):
            await claim_one(store, id=id, lease=lease)
        clock.advance(5)

        assert ids(await store.expired(10)) == ["b", "c", "a"]
        assert ids(await store.expired(2)) == ["b", "c"]

    async def test_expired_lists_claimed_jobs_only(self, store: Store, clock: FakeClock) -> None:
        await enqueue(store, *new_jobs(3))
        a, b, _ = await claim(store, lease=1)
        await settle(store, completed(a), transitions.cancel(b.id))
        clock.advance(5)

        assert len(await store.expired(10)) == 1

    async def test_reap_counts_the_attempt(self, store: Store, clock: FakeClock) -> None:
        job = await enqueue_and_claim(store, new_job(retry=Backoff(base=8, cap=8)), lease=30)
        clock.advance(31)
        write = expired(job, clock)

        [written] = await store.write([write])

        after = await read(store, job.id)
        assert (written, write.delay_us is not None) == ((Outcome.APPLIED, Status.PENDING), True)
        assert after == replace(
            job,
            lease_token="",
            status=Status.PENDING,
            attempts=1,
            due_us=clock.now() + (write.delay_us or 0),
            error=write.error,
            settled_as=EventName.EXPIRED,
            updated_us=clock.now(),
            events=3,
        )
        assert after.error is not None
        assert (after.error.kind, job.due_us < after.due_us <= clock.now() + 8 * SECOND) == ("lease_expired", True)

    async def test_reap_puts_a_job_that_kills_its_workers_in_the_dead_letter(
        self, store: Store, clock: FakeClock
    ) -> None:
        await enqueue(store, new_job("poison", max_attempts=3))
        for attempt in range(1, 4):
            assert (await claim_one(store, lease=30)).fence == attempt
            clock.advance(30)
            [written] = await reap(store, clock)
            job = await read(store, "poison")
            assert (written, job.attempts) == ((Outcome.APPLIED, job.status), attempt)
            clock.advance(FOREVER)

        job = await read(store, "poison")
        assert (job.status, job.attempts, job.settled_as) == (Status.FAILED, 3, EventName.EXPIRED)
        assert job.error is not None
        assert job.error.kind == "lease_expired"
        assert await claim(store) == []

    async def test_reap_checks_the_lease_end_again(self, store: Store, clock: FakeClock) -> None:
        job = await enqueue_and_claim(store, lease=30)
        clock.advance(30)
        [seen] = await store.expired(10)
        await store.extend([Extension(job.ref)])
        before, log = await read(store, job.id), await store.log(job.id)

        assert await store.write([expired(seen, clock)]) == [(Outcome.LOST, before.status)]
        assert (await read(store, job.id), await store.log(job.id)) == (before, log)
        assert await settle(store, completed(job)) == [Outcome.APPLIED]

    async def test_reap_checks_the_fence_again(self, store: Store, clock: FakeClock) -> None:
        await enqueue(store, new_job(retry=Backoff(base=0)))
        await claim_one(store, lease=30)
        clock.advance(30)
        [seen] = await store.expired(10)
        await reap(store, clock)
        second = await claim_one(store, lease=30)
        clock.advance(30)  # the second claim's lease has run out as well, but it is not the one that was seen

        assert await settle(store, expired(seen, clock)) == [Outcome.LOST]
        assert await settle(store, completed(second)) == [Outcome.APPLIED]

    async def test_reap_twice_takes_it_once(self, store: Store, clock: FakeClock) -> None:
        job = await enqueue_and_claim(store, lease=30)
        clock.advance(30)
        [seen] = await store.expired(10)

        assert await settle(store, expired(seen, clock), expired(seen, clock)) == [Outcome.APPLIED, Outcome.LOST]
        assert (await read(store, job.id)).attempts == 1

    async def test_reap_before_the_lease_has_run_out_is_lost(self, store: Store, clock: FakeClock) -> None:
        job = await enqueue_and_claim(store, lease=30)
        clock.advance(30 - US)

        assert await settle(store, expired(job, clock)) == [Outcome.LOST]
        assert (await read(store, job.id)).status is Status.CLAIMED

    async def test_reap_of_many(self, store: Store, clock: FakeClock) -> None:
        await enqueue(store, *new_jobs(30), *new_jobs(10, queue="other"))
        held = await claim(store, queues=("other",), lease=60)
        await claim(store, lease=30)
        clock.advance(30)

        assert [written.outcome for written in await reap(store, clock)] == [Outcome.APPLIED] * 30
        counts = await store.counts()
        assert (counts.pending + counts.scheduled, counts.claimed) == (30, 10)
        assert await settle(store, *map(completed, held)) == [Outcome.APPLIED] * 10
