"""now: the store's clock rules, and never runs backwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.domain.job import Extension, Outcome
from dibs.domain.retry import SECOND
from dibs.testing.conformance.base import Suite, ordered
from dibs.testing.conformance.builders import (
    claim,
    claim_one,
    completed,
    enqueue,
    enqueue_and_claim,
    failed,
    ids,
    new_job,
    new_jobs,
    read,
    reap,
    settle,
)
from dibs.testing.conformance.log import assert_replays

if TYPE_CHECKING:
    from dibs.clock import FakeClock
    from dibs.store import Store

HOUR = 3600


class ClockSuite(Suite):
    """Set forward, leases end early; set back, recovery is that much later; nothing else."""

    async def test_now_follows_the_clock(self, store: Store, clock: FakeClock) -> None:
        first = await store.now()
        clock.advance(1.5)

        assert (first, await store.now()) == (clock.now() - 1_500_000, clock.now())

    async def test_now_stands_still_while_the_clock_is_behind(self, store: Store, clock: FakeClock) -> None:
        await enqueue(store, new_job())
        before = await store.now()
        clock.advance(-HOUR)
        assert await store.now() == before
        clock.advance(HOUR - 1)
        assert await store.now() == before

        clock.advance(2)
        assert await store.now() == before + SECOND

    async def test_now_remembers_what_was_written(self, store: Store, clock: FakeClock) -> None:
        [job] = await enqueue(store, new_job())
        clock.advance(-HOUR)

        assert await store.now() == job.created_us

    @ordered("queue")
    async def test_claim_is_fifo_while_the_clock_is_behind(self, store: Store, clock: FakeClock) -> None:
        drafts = new_jobs(9)
        await enqueue(store, *drafts[:3])
        clock.advance(-HOUR)
        await enqueue(store, *drafts[3:6])
        clock.advance(-HOUR)
        await enqueue(store, *drafts[6:])

        assert [(await claim_one(store)).id for _ in drafts] == ids(drafts)

    async def test_claim_finds_what_was_enqueued_before_the_clock_was_set_back(
        self, store: Store, clock: FakeClock
    ) -> None:
        job = await enqueue_and_claim(store, new_job("retried"))
        await enqueue(store, new_job("pending"))
        await settle(store, failed(job))
        clock.advance(-HOUR)

        assert sorted(ids(await claim(store))) == ["pending", "retried"]

    @ordered("queue")
    async def test_claim_waits_longer_for_a_delay_while_the_clock_is_behind(
        self, store: Store, clock: FakeClock
    ) -> None:
        await enqueue(store, new_job("before", delay=10))
        clock.advance(-HOUR)
        await enqueue(store, new_job("after", delay=10))
        clock.advance(10)
        assert await claim(store) == []

        clock.advance(HOUR)
        assert ids(await claim(store)) == ["before", "after"]

    @ordered("queue")
    async def test_reap_is_later_while_the_clock_is_behind(self, store: Store, clock: FakeClock) -> None:
        before = await enqueue_and_claim(store, new_job(), lease=10)
        clock.advance(-HOUR)
        after = await enqueue_and_claim(store, new_job(), lease=10)
        assert after.lease_expires_us == before.lease_expires_us
        clock.advance(11)
        assert await store.expired(10) == []

        clock.advance(HOUR)
        assert len(await reap(store, clock)) == 2

    async def test_extend_only_moves_the_lease_end_later(self, store: Store, clock: FakeClock) -> None:
        job = await enqueue_and_claim(store, lease=10)
        ends = [job.lease_expires_us]
        for step in (5, -HOUR, 100, HOUR, -1, 1, 3):
            clock.advance(step)
            assert await store.extend([Extension(job.ref)]) == [Outcome.APPLIED]
            ends.append((await read(store, job.id)).lease_expires_us)

        assert ends == sorted(ends, key=lambda end: end or 0)

    async def test_leases_end_early_when_the_clock_is_set_forward(self, store: Store, clock: FakeClock) -> None:
        job = await enqueue_and_claim(store, lease=10)
        clock.advance(HOUR)
        assert ids(await store.expired(10)) == [job.id]

        assert await settle(store, completed(job)) == [Outcome.APPLIED]  # the fence decides, the clock only permits

    async def test_log_keeps_its_order_while_the_clock_is_behind(self, store: Store, clock: FakeClock) -> None:
        await enqueue(store, new_job("a"))
        for _ in range(2):
            clock.advance(-HOUR)
            await settle(store, failed(await claim_one(store)))
        clock.advance(-HOUR)
        await settle(store, completed(await claim_one(store)))

        await assert_replays(store, [await read(store, "a")])
        times = [event.at_us for event in await store.log("a")]
        assert times == sorted(times)
        job = await read(store, "a")
        assert job.created_us <= (job.claimed_us or 0) <= job.updated_us
