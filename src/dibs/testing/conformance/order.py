"""claim: in which order."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from dibs.domain import transitions
from dibs.domain.job import Order
from dibs.domain.retry import Backoff
from dibs.testing.conformance.base import Suite, ordered
from dibs.testing.conformance.builders import (
    claim,
    claim_one,
    completed,
    enqueue,
    failed,
    ids,
    new_job,
    new_jobs,
    pause,
    reap,
    released,
    resume,
    settle,
)

if TYPE_CHECKING:
    from dibs.clock import FakeClock
    from dibs.domain.job import Job
    from dibs.store import Store


class OrderSuite(Suite):
    """Priority, then due time, then enqueue order; and the other ways."""

    @ordered("queue")
    async def test_claim_is_fifo_within_a_queue(self, store: Store, clock: FakeClock) -> None:
        drafts = new_jobs(6)
        await enqueue(store, *drafts[:2])
        await enqueue(store, drafts[2])  # at the same time
        clock.advance(1)
        await store.insert([drafts[3:5], drafts[5:]])

        assert [(await claim_one(store)).id for _ in drafts] == ids(drafts)

    @ordered("queue")
    async def test_claim_takes_the_highest_priority_first(self, store: Store) -> None:
        await enqueue(store, *(new_job(f"{p}{n}", priority=p) for n in "ab" for p in (0, -10, 10, 1)))

        assert ids(await claim(store)) == ["10a", "10b", "1a", "1b", "0a", "0b", "-10a", "-10b"]

    @ordered("queue")
    async def test_claim_takes_the_lowest_priority_first_on_request(self, store: Store, clock: FakeClock) -> None:
        await enqueue(
            store, new_job("0late", delay=2), *(new_job(f"{p}{n}", priority=p) for n in "ab" for p in (0, -1, 1))
        )
        clock.advance(2)

        assert ids(await claim(store, order=Order.PRIORITY_ASC)) == ["-1a", "-1b", "0a", "0b", "0late", "1a", "1b"]

    @ordered("queue")
    async def test_claim_takes_what_was_due_first(self, store: Store, clock: FakeClock) -> None:
        await enqueue(
            store, new_job("3", delay=3), new_job("1", delay=1), new_job("2", delay=2), new_job("1b", delay=1)
        )
        clock.advance(2)
        await enqueue(store, new_job("2b"))
        clock.advance(2)

        assert ids(await claim(store)) == ["1", "1b", "2", "2b", "3"]

    @ordered("queue")
    async def test_claim_puts_priority_before_due_time(self, store: Store, clock: FakeClock) -> None:
        await enqueue(store, new_job("old"))
        clock.advance(100)
        await enqueue(store, new_job("new", priority=1), new_job("later", priority=2, delay=1))

        assert ids(await claim(store, limit=1)) == ["new"]
        clock.advance(1)
        assert ids(await claim(store)) == ["later", "old"]

    @ordered("store")
    @pytest.mark.parametrize(("order", "step"), [(Order.CREATED_AT, 1), (Order.CREATED_AT_DESC, -1)])
    async def test_claim_in_enqueue_order(self, store: Store, clock: FakeClock, order: Order, step: int) -> None:
        drafts = [new_job(priority=p, delay=d, queue=q) for p, d, q in product((0, 5, -5), (2, 0, 1), "ab")]
        await enqueue(store, *drafts, new_job(delay=60))
        clock.advance(2)

        assert ids(await claim(store, limit=4, order=order)) == ids(drafts[::step][:4])
        assert ids(await claim(store, order=order)) == ids(drafts[::step][4:])

    @ordered("queue")
    async def test_claim_in_enqueue_order_keeps_the_place_of_a_retry(self, store: Store) -> None:
        drafts = new_jobs(3)
        await enqueue(store, *drafts)
        await settle(store, failed(await claim_one(store)))

        assert ids(await claim(store, order=Order.CREATED_AT)) == ids(drafts)

    async def test_claim_at_random_gives_every_due_job_a_chance(self, store: Store) -> None:
        drafts = [new_job(queue=q, priority=p) for q in "ab" for p in (0, 1, 9)]
        await enqueue(store, *drafts, new_job("later", delay=60), new_job("held", delay=None))
        seen: set[str] = set()
        for _ in range(400):
            job = await claim_one(store, order=Order.RANDOM)
            seen.add(job.id)
            await settle(store, released(job))
            if len(seen) == len(drafts):
                break

        assert seen == set(ids(drafts))

    async def test_claim_at_random_takes_each_job_once(self, store: Store) -> None:
        drafts = [new_job(queue=q, task=t) for q in "ab" for t in "xyz"]
        await enqueue(store, *drafts)

        some = await claim(store, limit=4, order=Order.RANDOM)
        rest = await claim(store, order=Order.RANDOM, queues=("a", "b"), tasks=("x", "y", "z"))

        assert (len(some), len(rest)) == (4, 2)
        assert sorted(ids(some + rest)) == sorted(ids(drafts))

    @ordered("store")
    @pytest.mark.parametrize("limit", [1, 7, 100])
    @pytest.mark.parametrize(
        "asked",
        [{}, {"queues": ("q1", "q3", "q4")}, {"tasks": ("t0", "t2")}, {"queues": ("q0", "q2"), "tasks": ("t1", "t2")}],
        ids=["all", "queues", "tasks", "both"],
    )
    async def test_claim_merges_lanes_in_order(
        self, store: Store, clock: FakeClock, asked: dict[str, Any], limit: int
    ) -> None:
        jobs: list[Job] = []
        for step in range(4):
            lanes = list(product(range(5), range(3), (0, 1 - 2 * (step % 2))))
            clock.random.shuffle(lanes)
            jobs += await enqueue(
                store, *(new_job(queue=f"q{q}", task=f"t{t}", priority=p, delay=(q + t) % 3) for q, t, p in lanes)
            )
            clock.advance(1)
        clock.advance(5)
        wanted = [
            job
            for job in sorted(jobs, key=lambda job: (-job.priority, job.due_us))  # stable: then in enqueue order
            if job.queue in asked.get("queues", job.queue) and job.task in asked.get("tasks", job.task)
        ]
        rest = ids(wanted)
        while rest:
            assert ids(await claim(store, limit=limit, **asked)) == rest[:limit]
            rest = rest[limit:] if limit > 1 else rest[1:][:5]  # one by one, six are enough

    @ordered("queue")
    async def test_claim_puts_a_retry_at_its_new_due_time(self, store: Store, clock: FakeClock) -> None:
        await enqueue(store, new_job("a"), new_job("b"))
        first = await claim_one(store)
        clock.advance(1)
        await settle(store, failed(first))
        await enqueue(store, new_job("c"))

        assert ids(await claim(store)) == ["b", "a", "c"]  # a and c are due at the same time

    @ordered("queue")
    async def test_claim_puts_an_expired_job_at_its_new_due_time(self, store: Store, clock: FakeClock) -> None:
        await enqueue(store, new_job("a", retry=Backoff(base=0)), new_job("b"))
        await claim_one(store, lease=1)
        clock.advance(1)
        await reap(store, clock)

        assert ids(await claim(store)) == ["b", "a"]

    @ordered("queue")
    async def test_claim_puts_a_redriven_job_at_its_new_due_time(self, store: Store, clock: FakeClock) -> None:
        await enqueue(store, new_job("a"), new_job("b"))
        first = await claim_one(store)
        clock.advance(1)
        await settle(store, completed(first))
        await settle(store, transitions.redrive("a"))

        assert ids(await claim(store)) == ["b", "a"]

    @ordered("queue")
    async def test_claim_keeps_the_place_of_a_released_job(self, store: Store, clock: FakeClock) -> None:
        drafts = new_jobs(3)
        await enqueue(store, *drafts)
        first, second = await claim(store, limit=2)
        clock.advance(60)
        await settle(store, released(second), released(first))

        assert ids(await claim(store)) == ids(drafts)

    @ordered("queue")
    async def test_claim_puts_a_job_released_for_later_at_its_new_due_time(
        self, store: Store, clock: FakeClock
    ) -> None:
        await enqueue(store, new_job("a"), new_job("b"))
        first = await claim_one(store)
        await settle(store, released(first, delay=5))
        clock.advance(4)
        await enqueue(store, new_job("c"))
        clock.advance(1)
        await enqueue(store, new_job("d"))

        assert ids(await claim(store)) == ["b", "c", "a", "d"]

    @ordered("queue")
    async def test_claim_keeps_the_order_of_a_queue_that_was_paused(self, store: Store, clock: FakeClock) -> None:
        drafts = new_jobs(4)
        await enqueue(store, *drafts[:2])
        await pause(store, "default")
        clock.advance(1)
        await enqueue(store, *drafts[2:])
        await resume(store, "default")

        assert ids(await claim(store)) == ids(drafts)
