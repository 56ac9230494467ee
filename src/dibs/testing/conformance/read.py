"""get, find, counts, queues, audit: what is there, without changing it and without giving a claim away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from dibs.domain import transitions
from dibs.domain.job import Counts, Outcome, Query, Status
from dibs.domain.retry import SECOND
from dibs.testing.conformance.base import Suite, ordered
from dibs.testing.conformance.builders import (
    claim,
    claim_one,
    completed,
    enqueue,
    enqueue_and_claim,
    failed,
    find,
    ids,
    new_job,
    new_jobs,
    one,
    pause,
    read,
    resume,
    settle,
)

if TYPE_CHECKING:
    from dibs.clock import FakeClock
    from dibs.domain.job import Event, Job
    from dibs.store import Store


async def pages(store: Store, query: Query) -> list[list[str]]:
    """Read page after page, until there is none."""
    found = []
    while True:
        jobs, cursor = await store.find(query)
        found.append(ids(jobs))
        if cursor is None:
            return found
        query = replace(query, cursor=cursor)


async def audited(store: Store, limit: int) -> list[tuple[Job | None, list[Event]]]:
    """Read the whole audit, so many at a time."""
    items, cursor = [], None
    for _ in range(1000):
        audit = await store.audit(cursor, limit)
        items += audit.items
        cursor = audit.cursor
        if cursor is None:
            break
    assert cursor is None
    return items


class ReadSuite(Suite):
    """Looking."""

    async def test_get_answers_in_the_order_asked(self, store: Store) -> None:
        a, b = await enqueue(store, new_job("a"), new_job("b"))

        assert await store.get(["b", "none", "a", "b", "A"]) == [b, None, a, b, None]
        assert await store.get([]) == []

    async def test_get_of_a_thousand(self, store: Store) -> None:
        jobs = await enqueue(store, *new_jobs(1000))

        assert await store.get(ids(jobs)) == jobs

    async def test_reading_never_shows_a_lease_token(self, store: Store, clock: FakeClock) -> None:
        hidden = "a-token-that-no-one-else-may-see"
        draft = new_job("a", idempotency_key="key")
        await enqueue(store, draft)
        [[job]] = await store.claim([one(under=hidden, lease=1)])
        clock.advance(1)
        [refusal] = await store.insert([[new_job("a", params=b"2")]])

        assert job.lease_token == hidden
        seen: list[Any] = [
            await store.get(["a"]),
            await store.find(Query()),
            await store.expired(10),
            await store.audit(None, 10),
            await store.log("a"),
            await store.insert([[draft]]),
            refusal,
            await store.write([completed(replace(job, fence=7))]),
            await store.write([completed(job)]),
            await store.write([completed(job)]),
            await store.write([transitions.redrive("a")]),
            await store.get(["a"]),
        ]
        assert hidden not in repr(seen)

    @ordered("queue")
    async def test_find_lists_the_newest_first(self, store: Store, clock: FakeClock) -> None:
        drafts = [new_job(priority=p, delay=d) for p in (0, 5) for d in (0, 60)]
        await enqueue(store, *drafts[:2])
        clock.advance(1)
        await enqueue(store, *drafts[2:])

        assert ids(await find(store)) == ids(drafts[::-1])
        assert ids(await find(store, oldest_first=True)) == ids(drafts)

    async def test_find_answers_whole_jobs(self, store: Store) -> None:
        job = await enqueue_and_claim(store, new_job(tags=("x",), idempotency_key="k", batch_id="b"))
        await settle(store, completed(job, b"1"))

        assert await find(store) == [await read(store, job.id)]

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ({}, "abcdef"),
            ({"status": (Status.PENDING,)}, "ef"),
            ({"status": (Status.CLAIMED,)}, "d"),
            ({"status": (Status.COMPLETED, Status.FAILED, Status.CANCELLED)}, "abc"),
            ({"queue": "q1"}, "abc"),
            ({"queue": "Q1"}, ""),
            ({"task": "t1"}, "ace"),
            ({"worker_id": "w1"}, "ab"),
            ({"batch_id": "b1"}, "af"),
            ({"tag": "red"}, "ab"),
            ({"tag": "re"}, ""),
            ({"tag": "50%"}, "c"),
            ({"priority_min": 1}, "bc"),
            ({"priority_max": 1}, "abdef"),
            ({"priority_min": 1, "priority_max": 1}, "b"),
            ({"q": '"path":"a.png"'}, "a"),
            ({"q": "%"}, "b"),
            ({"q": "_"}, "c"),
            ({"q": "ü🦆"}, "d"),
            ({"q": "e"}, "e"),
            ({"q": "nowhere"}, ""),
            ({"queue": "q1", "task": "t1", "status": (Status.COMPLETED,), "tag": "red", "worker_id": "w1"}, "a"),
            ({"queue": "q1", "task": "t2", "status": (Status.COMPLETED,)}, ""),
        ],
        ids=str,
    )
    async def test_find_by(self, store: Store, query: dict[str, Any], found: str) -> None:
        await enqueue(
            store,
            new_job("a", queue="q1", task="t1", batch_id="b1", tags=("red", "blue"), params=b'{"path":"a.png"}'),
            new_job("b", queue="q1", task="t2", batch_id="b2", tags=("red",), params=b'"5%"', priority=1),
            new_job("c", queue="q1", task="t1", tags=("50%", "redder"), params=b'"x_y"', priority=2),
            new_job("d", queue="q2", task="t2", params='"ü🦆"'.encode()),
            new_job("e", queue="q2", task="t1", params=b"1", delay=60),
            new_job("f", queue="q2", task="t2", params=b"1", delay=None, batch_id="b1"),
        )
        await settle(store, completed(await claim_one(store, "w1", id="a")))
        await settle(store, failed(await claim_one(store, "w1", id="b"), retryable=False))
        await settle(store, transitions.cancel("c"))
        await claim_one(store, "w2", id="d")

        got = ids(await find(store, **query, oldest_first=True))
        assert "".join(got if self.order_reaches == "store" else sorted(got)) == found
        assert ids(await find(store, **query)) == got[::-1]

    @ordered("queue")
    @pytest.mark.parametrize("oldest_first", [True, False])
    async def test_find_goes_on_where_the_last_page_ended(self, store: Store, *, oldest_first: bool) -> None:
        drafts = [new_job(queue=q) for _ in range(5) for q in ("a", "b")]
        await enqueue(store, *drafts)
        expected = ids(drafts[::2] if oldest_first else drafts[::-1][1::2])

        found = await pages(store, Query(queue="a", limit=2, oldest_first=oldest_first))

        assert found == [expected[:2], expected[2:4], expected[4:]]

    async def test_find_ends_with_a_full_page(self, store: Store) -> None:
        await enqueue(store, *new_jobs(4))

        assert [len(page) for page in await pages(store, Query(limit=2))] == [2, 2]
        assert await pages(store, Query(queue="none")) == [[]]

    @ordered("queue")
    async def test_find_keeps_its_place_while_jobs_come_and_go(self, store: Store, clock: FakeClock) -> None:
        await enqueue(store, *(new_job(id, keep=0) for id in "abcdefg"))
        first, cursor = await store.find(Query(limit=3))
        clock.advance(1)
        await enqueue(store, *new_jobs(3, delay=9))
        await settle(store, completed(await claim_one(store, id="e")))  # the last one of the page is gone
        await settle(store, completed(await claim_one(store, id="c")))
        await settle(store, failed(await claim_one(store, id="b"), delay=99))
        second, cursor = await store.find(Query(limit=3, cursor=cursor))

        assert (ids(first), ids(second), cursor) == (["g", "f", "e"], ["d", "b", "a"], None)

    async def test_counts(self, store: Store, clock: FakeClock) -> None:
        await enqueue(store, *new_jobs(7), *new_jobs(2, delay=60), new_job(delay=None), *new_jobs(3, queue="other"))
        done, dead, _ = await claim(store, limit=3, queues=("default",))
        await settle(store, completed(done), failed(dead, retryable=False))
        [job] = await claim(store, limit=1, queues=("default",))
        await settle(store, transitions.cancel(job.id))

        assert await store.counts() == Counts(6, 3, 1, 1, 1, 1)
        assert await store.counts("default") == Counts(3, 3, 1, 1, 1, 1)
        assert await store.counts("other") == Counts(3)
        assert await store.counts("none") == Counts()

        clock.advance(60)  # the scheduled ones are due now, and no one had to write anything
        assert await store.counts("default") == Counts(5, 1, 1, 1, 1, 1)

    async def test_queues(self, store: Store, clock: FakeClock) -> None:
        assert await store.queues() == []
        start = clock.now()
        await enqueue(store, new_job(queue="b", delay=2), new_job(queue="b", delay=1), new_job(queue="b", delay=60))
        await enqueue(store, new_job(queue="c", delay=60), new_job("a", queue="a"), new_job(queue="B"))
        await settle(store, completed(await claim_one(store, id="a")))
        await pause(store, "b")
        await pause(store, "empty")
        clock.advance(5)

        assert [(info.queue, info.counts, info.paused, info.oldest_due_us) for info in await store.queues()] == [
            ("B", Counts(1), False, start),
            ("a", Counts(completed=1), False, None),
            ("b", Counts(2, 1), True, start + SECOND),
            ("c", Counts(scheduled=1), False, None),
            ("empty", Counts(), True, None),
        ]
        await resume(store, "b")
        await resume(store, "empty")
        assert [(info.queue, info.paused) for info in await store.queues()] == [(q, False) for q in "Babc"]

    async def test_queues_lists_no_queue_whose_pause_ran_out(self, store: Store, clock: FakeClock) -> None:
        await store.put("paused/a", b"{}", keep_us=SECOND)
        assert [info.queue for info in await store.queues()] == ["a"]
        clock.advance(1)

        assert await store.queues() == []

    async def test_queues_lists_no_queue_whose_jobs_are_gone(self, store: Store) -> None:
        job = await enqueue_and_claim(store, new_job(keep=0))
        await settle(store, completed(job))

        assert await store.queues() == []

    @pytest.mark.parametrize("limit", [1, 3, 100])
    async def test_audit_goes_through_all_jobs_with_their_logs(self, store: Store, limit: int) -> None:
        jobs = await enqueue(store, *new_jobs(7), new_job(keep=0))
        *kept, gone = ids(jobs)
        for job in await claim(store):
            assert await settle(store, completed(job)) == [Outcome.APPLIED]

        items = await audited(store, limit)

        logs = {log[-1].job_id: (job, log) for job, log in items}
        assert len(items) == len(logs) == 8
        assert {id: logs[id] for id in kept} == {id: (await read(store, id), await store.log(id)) for id in kept}
        assert logs[gone] == (None, await store.log(gone))

    async def test_audit_of_an_empty_store(self, store: Store) -> None:
        assert await audited(store, 10) == []

    async def test_open_twice_does_nothing(self, store: Store) -> None:
        [job] = await enqueue(store, new_job())
        await store.open()

        assert await find(store) == [job]

    async def test_migrate_finds_nothing_left_to_do(self, store: Store) -> None:
        assert await store.migrate(dry_run=True) == []
        assert await store.migrate() == []
