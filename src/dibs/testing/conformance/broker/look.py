"""get, find, log, counts, queues, workers: looking changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.domain.errors import InvalidRequest
from dibs.domain.job import Counts, Filter, Status
from dibs.testing.conformance.broker.base import Suite
from dibs.testing.conformance.broker.verbs import (
    claim,
    claim_one,
    complete,
    enqueue,
    enqueue_some,
    fail,
    find,
    ids,
    read,
    release,
    settle,
    take,
)

if TYPE_CHECKING:
    from dibs.broker.protocol import Broker
    from dibs.clock import FakeClock


async def one_of_each(broker: Broker) -> dict[str, str]:
    """Make one job in each state; say which is which."""
    done, dead, stopped, held = [await take(broker, f"worker-{n}") for n in range(4)]
    await settle(broker, complete(done), fail(dead, retryable=False))
    await broker.cancel([stopped.id])
    pending, scheduled = await enqueue(broker), await enqueue(broker, delay=60)
    return {
        "completed": done.id,
        "failed": dead.id,
        "cancelled": stopped.id,
        "claimed": held.id,
        "pending": pending.id,
        "scheduled": scheduled.id,
    }


class LookSuite(Suite):
    """Reading."""

    async def test_get_no_job(self, broker: Broker) -> None:
        assert await broker.get("none") is None

    async def test_find_newest_first(self, broker: Broker) -> None:
        jobs = await enqueue_some(broker, 5)

        assert ids(await find(broker)) == ids(jobs)[::-1]
        assert ids(await find(broker, limit=2)) == ids(jobs)[:2:-1]

    @pytest.mark.parametrize("limit", [1, 2, 3, 6, 7, 1000])
    async def test_find_goes_through_all_pages(self, broker: Broker, limit: int) -> None:
        jobs = await enqueue_some(broker, 7)
        await enqueue_some(broker, 3, queue="other")
        found: list[str] = []
        cursor: str | None = None
        for _ in range(10):
            page, cursor = await broker.find(Filter(queue="default"), limit=limit, cursor=cursor)
            assert len(page) <= limit
            found += ids(page)
            if cursor is None:
                break
            assert len(page) == limit

        assert found == ids(jobs)[::-1]

    async def test_find_pages_are_not_disturbed_by_new_jobs(self, broker: Broker) -> None:
        jobs = await enqueue_some(broker, 6)
        first, cursor = await broker.find(Filter(), limit=3, cursor=None)
        await enqueue_some(broker, 3)
        await settle(broker, complete(await claim_one(broker, id=jobs[0].id)))
        rest, end = await broker.find(Filter(), limit=3, cursor=cursor)

        assert ids([*first, *rest]) == ids(jobs)[::-1]
        assert end is None

    async def test_find_by_status(self, broker: Broker) -> None:
        made = await one_of_each(broker)

        for status in Status:
            expected = {made[status]} | ({made["scheduled"]} if status is Status.PENDING else set())
            assert set(ids(await find(broker, status=status))) == expected
            assert set(ids(await find(broker, status=status.value))) == expected
        assert len(await find(broker, status=["failed", Status.COMPLETED])) == 2
        assert len(await find(broker)) == 6

    async def test_find_by_everything_else(self, broker: Broker) -> None:
        a = await enqueue(broker, "resize", {"path": "a.png"}, queue="images", tags=["red", "big"], batch="b1")
        b = await enqueue(broker, "resize", {"path": "b.png"}, queue="images", tags=["red"])
        c = await enqueue(broker, "mail", {"to": "a.png@b.c"}, id="the-mail_1")
        await claim_one(broker, "worker-7", id=b.id)

        for where, expected in [
            (Filter(task="resize"), [b, a]),
            (Filter(queue="images"), [b, a]),
            (Filter(worker_id="worker-7"), [b]),
            (Filter(batch_id="b1"), [a]),
            (Filter(tag="red"), [b, a]),
            (Filter(tag="big"), [a]),
            (Filter(tag="re"), []),
            (Filter(q="a.png"), [c, a]),
            (Filter(q="mail_1"), [c]),
            (Filter(q="%"), []),
            (Filter(q="mail-1"), []),
            (Filter(task="resize", tag="red", status="pending"), [a]),
            (Filter(task="resize", queue="default"), []),
        ]:
            jobs, cursor = await broker.find(where, limit=10, cursor=None)
            assert (ids(jobs), cursor) == (ids(expected), None), where

    async def test_find_by_priority(self, broker: Broker) -> None:
        low, middle, high = [await enqueue(broker, priority=priority) for priority in (-5, 0, 5)]

        for where, expected in [
            (Filter(priority_min=0), [high, middle]),
            (Filter(priority_max=0), [middle, low]),
            (Filter(priority_min=-5, priority_max=-5), [low]),
            (Filter(priority_min=1, priority_max=4), []),
        ]:
            assert ids((await broker.find(where, limit=10, cursor=None))[0]) == ids(expected), where
        for bad in (Filter(priority_min=40_000), Filter(priority_max=True)):
            with pytest.raises(InvalidRequest, match="priority"):
                await broker.find(bad, limit=10, cursor=None)

    async def test_find_oldest_first(self, broker: Broker) -> None:
        jobs = await enqueue_some(broker, 5)
        first, cursor = await broker.find(Filter(), limit=3, cursor=None, oldest_first=True)
        rest, end = await broker.find(Filter(), limit=3, cursor=cursor, oldest_first=True)

        assert (ids([*first, *rest]), end) == (ids(jobs), None)

    async def test_find_shows_no_token(self, broker: Broker) -> None:
        job = await take(broker)

        assert job.lease_token not in repr(await find(broker))

    async def test_log_tells_the_life_of_a_job(self, broker: Broker, clock: FakeClock) -> None:
        job = await enqueue(broker, max_attempts=2)
        times = [clock.now()]

        async def after(seconds: float) -> None:
            clock.advance(seconds)
            times.append(clock.now())

        await after(1)
        first = await claim_one(broker, "w1", lease=20)
        await after(1)
        await settle(broker, release(first))
        await after(1)
        second = await claim_one(broker, "w2")
        await after(1)
        await settle(broker, fail(second, delay=0))
        await after(1)
        third = await claim_one(broker, "w3")
        await after(1)
        await settle(broker, complete(third))

        log = await broker.log(job.id)
        assert [(e.event.value, e.from_, e.to, e.worker_id, e.fence, e.attempts) for e in log] == [
            ("enqueued", None, "pending", None, 0, 0),
            ("claimed", "pending", "claimed", "w1", 1, 0),
            ("released", "claimed", "pending", "w1", 1, 0),
            ("claimed", "pending", "claimed", "w2", 2, 0),
            ("retried", "claimed", "pending", "w2", 2, 1),
            ("claimed", "pending", "claimed", "w3", 3, 1),
            ("completed", "claimed", "completed", "w3", 3, 2),
        ]
        assert [event.seq for event in log] == [1, 2, 3, 4, 5, 6, 7]
        assert [event.at_us for event in log] == times
        assert log[1].lease_expires_us == times[1] + 20_000_000

    async def test_counts_by_state(self, broker: Broker, clock: FakeClock) -> None:
        assert await broker.counts() == Counts()
        await one_of_each(broker)

        assert await broker.counts() == Counts(1, 1, 1, 1, 1, 1, exact=True)
        clock.advance(60)
        assert await broker.counts() == Counts(2, 0, 1, 1, 1, 1, exact=True)

    async def test_counts_of_one_queue(self, broker: Broker) -> None:
        await enqueue_some(broker, 3, queue="a")
        await enqueue_some(broker, 2, queue="b")

        assert (await broker.counts("a")).pending == 3
        assert (await broker.counts("a/b")) == Counts()
        assert (await broker.counts()).pending == 5

    async def test_counts_are_derived_from_the_jobs(self, broker: Broker) -> None:
        jobs = await enqueue_some(broker, 4)
        await claim(broker, limit=2)
        await broker.cancel(ids(jobs))
        await broker.purge(ids(jobs)[:3])
        await broker.redrive([jobs[3].id])

        assert await broker.counts() == Counts(pending=1)

    async def test_queues_at_a_glance(self, broker: Broker, clock: FakeClock) -> None:
        assert await broker.queues() == []
        first = await enqueue(broker, queue="b")
        clock.advance(5)
        await enqueue(broker, queue="b")
        await enqueue(broker, queue="a", delay=60)
        a, b = await broker.queues()

        assert (a.queue, a.paused, a.counts, a.oldest_due_us) == ("a", False, Counts(scheduled=1), None)
        assert (b.queue, b.paused, b.counts, b.oldest_due_us) == ("b", False, Counts(pending=2), first.due_us)

    async def test_workers_that_hold_something(self, broker: Broker, clock: FakeClock) -> None:
        assert await broker.workers() == []
        await enqueue_some(broker, 5)
        await claim(broker, "one", limit=1)
        clock.advance(3)
        held = await claim(broker, "two", limit=3)
        infos = {info.worker_id: info for info in await broker.workers()}

        assert {name: info.active_tasks for name, info in infos.items()} == {"one": 1, "two": 3}
        assert {info.status for info in infos.values()} == {"active"}
        assert infos["two"].last_seen_us == held[0].claimed_us

    async def test_looking_changes_nothing(self, broker: Broker, clock: FakeClock) -> None:
        job = await take(broker, claim_lease=10)
        clock.advance(20)
        before = await read(broker, job.id)
        await broker.explain(job.id)
        await broker.counts()
        await broker.queues()
        await broker.workers()
        await broker.verify()

        assert await find(broker) == [before]
