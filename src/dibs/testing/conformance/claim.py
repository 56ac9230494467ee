"""claim: a due job to one claimer, and what it may ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from dibs.domain import transitions
from dibs.domain.job import Order, Status
from dibs.domain.retry import SECOND
from dibs.testing.conformance.base import Suite, ordered
from dibs.testing.conformance.builders import (
    FOREVER,
    US,
    claim,
    claim_one,
    completed,
    enqueue,
    enqueue_and_claim,
    failed,
    ids,
    new_job,
    new_jobs,
    one,
    pause,
    read,
    reap,
    released,
    resume,
    settle,
)

if TYPE_CHECKING:
    from dibs.clock import FakeClock
    from dibs.store import Store


class ClaimSuite(Suite):
    """Claiming, but for the order."""

    async def test_claim_leases_the_job(self, store: Store, clock: FakeClock) -> None:
        [job] = await enqueue(store, new_job(lease=20))
        clock.advance(3)

        claimed = await claim_one(store, "worker-1", under="secret")

        assert (claimed.id, claimed.status, claimed.fence, claimed.worker_id) == (job.id, Status.CLAIMED, 1, "worker-1")
        assert (claimed.claimed_us, claimed.updated_us) == (clock.now(), clock.now())
        assert (claimed.claim_lease_us, claimed.lease_expires_us) == (20 * SECOND, clock.now() + 20 * SECOND)
        assert (claimed.lease_token, claimed.settled_as, claimed.attempts) == ("secret", None, 0)
        assert (claimed.due_us, claimed.created_us, claimed.events) == (job.due_us, job.created_us, 2)
        assert await read(store, job.id) == msgspec.structs.replace(claimed, lease_token="")

    async def test_claim_is_what_the_domain_says(self, store: Store, clock: FakeClock) -> None:
        [job] = await enqueue(store, new_job(tags=("a",), idempotency_key="k", unique_key="u", batch_id="b"))
        request = one()

        assert await store.claim([request]) == [[transitions.claim(job, request, clock.now())]]

    async def test_claim_of_an_empty_store(self, store: Store) -> None:
        assert await store.claim([one()]) == [[]]
        assert await store.claim([]) == []

    async def test_claim_raises_the_fence_each_time(self, store: Store, clock: FakeClock) -> None:
        await enqueue(store, new_job(max_attempts=10))
        fences = []
        for end in ("release", "fail", "expire", "release"):
            job = await claim_one(store, lease=1)
            fences.append(job.fence)
            if end == "expire":
                clock.advance(1)
                await reap(store, clock)
                clock.advance(FOREVER)
            else:
                await settle(store, released(job) if end == "release" else failed(job))
        job = await claim_one(store)
        await settle(store, completed(job))
        await settle(store, transitions.redrive(job.id))
        last = await claim_one(store)

        assert [*fences, job.fence, last.fence] == [1, 2, 3, 4, 5, 6]

    async def test_claim_gives_no_claimed_job(self, store: Store, clock: FakeClock) -> None:
        job = await enqueue_and_claim(store, lease=10)
        clock.advance(FOREVER)  # a lease that ran out is taken away by a reaper, not by a claim

        assert await claim(store) == []
        assert await claim(store, id=job.id) == []
        assert (await read(store, job.id)).fence == 1

    async def test_claim_lets_the_request_override_the_lease(self, store: Store, clock: FakeClock) -> None:
        await enqueue(store, new_job(lease=20), new_job(lease=20))

        short, own = await claim_one(store, lease=0.5), await claim_one(store)

        assert (short.claim_lease_us, short.lease_expires_us) == (SECOND // 2, clock.now() + SECOND // 2)
        assert (own.claim_lease_us, own.lease_expires_us) == (20 * SECOND, clock.now() + 20 * SECOND)

    async def test_claim_not_before_the_job_is_due(self, store: Store, clock: FakeClock) -> None:
        [job] = await enqueue(store, new_job(delay=10))
        clock.advance(10 - US)

        assert await claim(store) == []
        assert await claim(store, id=job.id) == []

        clock.advance(US)
        assert ids(await claim(store)) == [job.id]

    async def test_claim_finds_due_jobs_behind_scheduled_ones(self, store: Store) -> None:
        await enqueue(store, *new_jobs(50, delay=60, priority=9), *new_jobs(50, delay=None, priority=9), new_job("due"))

        assert ids(await claim(store)) == ["due"]

    @pytest.mark.parametrize("limit", [1, 2, 3, 1000])
    async def test_claim_leases_what_it_returns(self, store: Store, limit: int) -> None:
        await enqueue(store, *new_jobs(3))

        jobs = await claim(store, limit=limit)

        assert len(jobs) == len(set(ids(jobs))) == min(limit, 3)
        assert (await store.counts()).claimed == len(jobs)
        assert (await store.counts()).pending == 3 - len(jobs)

    async def test_claim_of_a_thousand(self, store: Store) -> None:
        drafts = new_jobs(1001)
        await enqueue(store, *drafts[:1000])
        await enqueue(store, *drafts[1000:])

        got = ids(await claim(store, limit=1000))
        assert len(set(got)) == 1000
        assert got == ids(drafts[:1000]) or self.order_reaches == "part"
        assert (await store.counts()).claimed == 1000

    async def test_claim_answers_each_request_in_turn(self, store: Store) -> None:
        drafts = new_jobs(5)
        await enqueue(store, *drafts)

        replies = await store.claim(
            [one("w1", limit=2, under="t1"), one("w2", queues=("none",)), one("w3", limit=9, under="t3"), one("w4")]
        )

        assert [len(jobs) for jobs in replies] == [2, 0, 3, 0]
        assert self.listed(job.id for jobs in replies for job in jobs) == ids(drafts)
        assert {(job.worker_id, job.lease_token) for job in replies[0]} == {("w1", "t1")}
        assert {(job.worker_id, job.lease_token) for job in replies[2]} == {("w3", "t3")}

    @ordered("queue")
    @pytest.mark.parametrize("order", [order for order in Order if order is not Order.RANDOM])
    async def test_claim_of_requests_that_want_the_same(self, store: Store, clock: FakeClock, order: Order) -> None:
        drafts = [new_job(priority=n % 3, max_attempts=1 + n % 2, lease=7) for n in range(12)]
        await enqueue(store, *drafts)
        alike = [one(f"w{n}", limit=1 + n, order=order, min_attempts_left=2, lease=None if n else 5) for n in range(3)]

        replies = await store.claim([*alike, one("last", limit=2, order=order), alike[0]])

        expected = {
            Order.PRIORITY: [5, 11, 1, 7, 3, 9],
            Order.PRIORITY_ASC: [3, 9, 1, 7, 5, 11],
            Order.CREATED_AT: [1, 3, 5, 7, 9, 11],
            Order.CREATED_AT_DESC: [11, 9, 7, 5, 3, 1],
        }[order]
        got = [ids(jobs) for jobs in replies]
        assert [id for each in got[:3] for id in each] == [drafts[n].id for n in expected]
        assert [len(each) for each in got] == [1, 2, 3, 2, 0]
        for request, jobs in zip(alike, replies, strict=False):
            assert {(job.worker_id, job.lease_token) for job in jobs} == {(request.worker_id, request.token)}
            lease = 5 if request.lease_us else 7
            assert {(job.lease_expires_us or 0) - clock.now() for job in jobs} == {lease * SECOND}
            assert [(await store.log(job.id))[-1].worker_id for job in jobs] == [request.worker_id] * len(jobs)

    async def test_claim_by_id_by_several_at_once_has_one_winner(self, store: Store) -> None:
        await enqueue(store, new_job("a"), new_job("b"))

        assert [ids(jobs) for jobs in await store.claim([one("w1", id="a"), one("w2", id="a"), one("w3", id="b")])] == [
            ["a"], [], ["b"],
        ]  # fmt: skip

    async def test_claim_by_queue(self, store: Store) -> None:
        await enqueue(store, *(new_job(q, queue=q) for q in ("a", "b", "c")))

        assert ids(await claim(store, queues=("b",))) == ["b"]
        assert ids(await claim(store, queues=("c", "a", "none"))) in (["a", "c"], ["c", "a"])
        assert await claim(store, queues=("a", "b", "c")) == []

    async def test_claim_by_task(self, store: Store) -> None:
        await enqueue(store, *(new_job(t, task=t) for t in ("a", "b", "c")))

        assert ids(await claim(store, tasks=("b",))) == ["b"]
        assert self.listed(ids(await claim(store, tasks=("c", "a", "none")))) == ["a", "c"]
        assert await claim(store, tasks=("a", "b", "c")) == []

    async def test_claim_by_queue_and_task(self, store: Store) -> None:
        await enqueue(store, *(new_job(q + t, queue=q, task=t) for q in "ab" for t in "xy"))

        assert ids(await claim(store, queues=("a",), tasks=("y",))) == ["ay"]
        assert ids(await claim(store, queues=("b", "none"), tasks=("none", "x"))) == ["bx"]
        assert ids(await claim(store, queues=("b",))) == ["by"]
        assert ids(await claim(store)) == ["ax"]

    async def test_claim_of_unknown_queues_and_tasks(self, store: Store) -> None:
        await enqueue(store, new_job())

        assert await claim(store, queues=("none",)) == []
        assert await claim(store, tasks=("none",)) == []
        assert await claim(store, queues=("default",), tasks=("none",)) == []
        assert await claim(store, queues=("defaul",)) == []

    async def test_claim_of_a_queue_named_twice(self, store: Store) -> None:
        drafts = new_jobs(3)
        await enqueue(store, *drafts)

        got = await claim(store, queues=("default", "default"), tasks=("task", "task"))
        assert self.listed(ids(got)) == ids(drafts)

    async def test_claim_of_a_rare_task(self, store: Store) -> None:
        await enqueue(store, *new_jobs(200, priority=5), new_job("rare", task="rare"), *new_jobs(200, priority=-5))

        assert ids(await claim(store, tasks=("rare",))) == ["rare"]

    async def test_claim_by_attempts_left(self, store: Store) -> None:
        await enqueue(store, new_job("two", max_attempts=2), new_job("three", max_attempts=3))
        for job in await claim(store):
            await settle(store, failed(job))  # one and two are left

        assert await claim(store, min_attempts_left=3) == []
        assert ids(await claim(store, min_attempts_left=2)) == ["three"]
        assert ids(await claim(store, min_attempts_left=1)) == ["two"]

    async def test_claim_by_attempts_left_looks_behind_what_it_skips(self, store: Store) -> None:
        await enqueue(store, *new_jobs(30, max_attempts=1, priority=1), new_job("fresh", max_attempts=4))

        assert ids(await claim(store, limit=1, min_attempts_left=4)) == ["fresh"]

    async def test_claim_by_id(self, store: Store) -> None:
        await enqueue(store, new_job("first", priority=9), new_job("wanted"), new_job("last"))

        assert ids(await claim(store, id="wanted")) == ["wanted"]
        assert await claim(store, id="wanted") == []
        assert await claim(store, id="none") == []
        assert sorted(ids(await claim(store))) == ["first", "last"]

    async def test_claim_by_id_of_what_is_asked_for_alone(self, store: Store) -> None:
        await enqueue(store, new_job("a", queue="q", task="t", max_attempts=2))

        assert await claim(store, id="a", queues=("other",)) == []
        assert await claim(store, id="a", tasks=("other",)) == []
        assert await claim(store, id="a", min_attempts_left=3) == []
        assert ids(await claim(store, id="a", queues=("q",), tasks=("t",), min_attempts_left=2)) == ["a"]

    @pytest.mark.parametrize("end", ["complete", "fail", "cancel"])
    async def test_claim_gives_no_finished_job(self, store: Store, end: str) -> None:
        job = await enqueue_and_claim(store)
        write = {"complete": completed(job), "fail": failed(job, retryable=False), "cancel": transitions.cancel(job.id)}
        await settle(store, write[end])

        assert await claim(store) == []
        assert await claim(store, id=job.id) == []

    async def test_claim_of_a_paused_queue_gives_nothing(self, store: Store) -> None:
        await enqueue(store, new_job("a", queue="a"), new_job("b", queue="b"), new_job("a/b", queue="a/b"))
        await pause(store, "a")

        assert await claim(store, queues=("a",)) == []
        assert await claim(store, id="a") == []
        assert await claim(store, queues=("a",), tasks=("task",)) == []
        assert sorted(ids(await claim(store))) == ["a/b", "b"]

        await resume(store, "a")
        assert ids(await claim(store)) == ["a"]

    async def test_claim_goes_on_when_a_pause_runs_out(self, store: Store, clock: FakeClock) -> None:
        await enqueue(store, new_job("a"))
        await store.put("paused/default", b"{}", keep_us=10 * SECOND)
        clock.advance(10 - US)
        assert await claim(store) == []

        clock.advance(US)
        assert ids(await claim(store)) == ["a"]

    async def test_claim_keeps_a_paused_queue_s_claims(self, store: Store, clock: FakeClock) -> None:
        held, other = await enqueue_and_claim(store, new_job()), await enqueue_and_claim(store, new_job())
        await pause(store, "default")

        assert (await settle(store, completed(held), released(other))) == ["applied", "applied"]
        assert await claim(store) == []
        clock.advance(1)
        assert (await store.counts()).pending == 1
