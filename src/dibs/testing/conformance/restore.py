"""restore: whole jobs of another store, with their logs, go on here as if nothing had happened."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from dibs.domain import transitions
from dibs.domain.audit import check
from dibs.domain.errors import WrongState
from dibs.domain.job import NEVER, Error, Extension, Job, Order, Outcome, Query, Status
from dibs.domain.retry import SECOND
from dibs.stores.memory import MemoryStore
from dibs.testing.conformance.base import Suite, ordered
from dibs.testing.conformance.builders import (
    DAY,
    claim,
    claim_one,
    completed,
    enqueue,
    failed,
    find,
    ids,
    new_job,
    new_jobs,
    read,
    reap,
    released,
    settle,
)
from dibs.testing.conformance.read import audited

if TYPE_CHECKING:
    from dibs.clock import FakeClock
    from dibs.domain.job import Event
    from dibs.store import Store

Items = list[tuple[Job, list["Event"]]]


async def lives(clock: FakeClock) -> Items:
    """Let jobs live every kind of life on another store, and read what became of them."""
    origin = MemoryStore(clock)
    await enqueue(origin, new_job("plain"), new_job("first", queue="mail", task="send", priority=-7))
    await enqueue(
        origin,
        new_job("keyed", params='{"ä":"€\\u0000"}'.encode(), idempotency_key="käy", batch_id="b", tags=("red", "blue")),
        new_job("later", delay=500, tags=("red",), unique_key="later"),
        new_job("held", delay=None),
        new_job("urgent", priority=32767, max_attempts=1, lease=7),
    )
    for id in ("done", "dead", "retried", "gone", "again", "reaped", "back", "later-back"):
        clock.advance(1.5)
        await enqueue(origin, new_job(id, unique_key=f"unique-{id}", idempotency_key=f"key-{id}", keep=DAY))
    for id in ("done", "again"):
        job = await claim_one(origin, "wörker-1", id=id, lease=11)
        clock.advance(0.25)
        await origin.extend([Extension(job.ref, 0.1 + 0.2, "a third")])
        await settle(origin, completed(job, b'{"deep":[1,2.5,null]}'))
    await settle(origin, transitions.redrive("again", "ann"))
    await settle(origin, completed(await claim_one(origin, "w2", id="again")))
    await settle(origin, transitions.redrive("again", "ann"))
    dead = await claim_one(origin, id="dead")
    await settle(origin, failed(dead, retryable=False, error=Error("it\nbroke", "Odd", "E1", "trace\nback")))
    for _ in range(2):
        await settle(origin, failed(await claim_one(origin, id="retried")))
    clock.advance(1)
    await settle(origin, transitions.cancel("gone", "bob"))
    await claim_one(origin, id="reaped", lease=5)
    clock.advance(6)
    await reap(origin, clock)
    await settle(origin, released(await claim_one(origin, id="back")))
    await settle(origin, released(await claim_one(origin, id="later-back"), delay=70))
    return [(job, events) for job, events in await audited(origin, 100) if job is not None]


async def restored(store: Store, items: Items) -> None:
    """Restore what must be taken."""
    assert await store.restore(items) == [None] * len(items)


async def twins(store: Store, clock: FakeClock) -> tuple[Store, Items]:
    """Restore the same lives to this store and to one in memory, and give that and them."""
    items = await lives(clock)
    other = MemoryStore(clock)
    for each in (store, other):
        await restored(each, items)
    return other, items


class RestoreSuite(Suite):
    """Whole jobs, as another store has them."""

    async def test_restore_of_nothing_is_nothing(self, store: Store) -> None:
        assert await store.restore([]) == []

    async def test_restore_puts_down_jobs_and_their_logs(self, store: Store, clock: FakeClock) -> None:
        items = await lives(clock)
        await restored(store, items)

        found = {job.id: (job, list(events)) for job, events in await audited(store, 4) if job is not None}
        assert found == {job.id: (job, list(events)) for job, events in items}
        assert await store.get([job.id for job, _ in items]) == [job for job, _ in items]
        for job, events in items:
            assert await store.log(job.id) == list(events)
        assert check(await audited(store, 100)).ok

    async def test_restore_leaves_jobs_where_they_are_looked_for(self, store: Store, clock: FakeClock) -> None:
        other, _ = await twins(store, clock)

        assert await store.counts() == await other.counts()
        assert await store.queues() == await other.queues()
        for query in (
            Query(tag="red"), Query(batch_id="b"), Query(status=(Status.FAILED,)), Query(status=(Status.PENDING,)),
            Query(queue="mail"), Query(task="send"), Query(worker_id="w2"), Query(q="€"),
        ):  # fmt: skip
            here, there = [ids((await each.find(query))[0]) for each in (store, other)]
            assert sorted(here) == sorted(there), query

    @ordered("queue")
    async def test_restore_keeps_the_order_of_a_queue(self, store: Store, clock: FakeClock) -> None:
        other, _ = await twins(store, clock)
        await enqueue(store, new_job("newest"))
        await enqueue(other, new_job("newest"))

        for query in (Query(queue="default"), Query(queue="default", oldest_first=True)):
            assert ids((await store.find(query))[0]) == ids((await other.find(query))[0])

    @pytest.mark.parametrize("order", [Order.PRIORITY, Order.PRIORITY_ASC, Order.CREATED_AT, Order.CREATED_AT_DESC])
    async def test_restore_lets_jobs_be_claimed_as_before(self, store: Store, clock: FakeClock, order: Order) -> None:
        other, _ = await twins(store, clock)
        for wait in (0, 100, 1000):
            clock.advance(wait)
            here, there = [await claim(each, queues=("default",), order=order, lease=DAY) for each in (store, other)]
            assert self.listed(job.id for job in here) == self.listed(job.id for job in there)
            assert {(job.id, job.fence, job.attempts, job.events) for job in here} == {
                (job.id, job.fence, job.attempts, job.events) for job in there
            }
        assert [job.due_us for job in await find(store, status=(Status.PENDING,), queue="default")] == [NEVER]

    async def test_restore_lets_jobs_go_on_as_before(self, store: Store, clock: FakeClock) -> None:
        other, _ = await twins(store, clock)
        for _ in range(4):
            clock.advance(600)
            for each in (store, other):
                await reap(each, clock)
                held = {job.id: job for job in await claim(each, "later", lease=60)}
                ends = {
                    id: failed(job) if id in {"retried", "reaped", "back"} else completed(job, b"1")
                    for id, job in held.items()
                    if id != "plain"
                }
                for id in sorted(ends):
                    assert await settle(each, ends[id]) == [Outcome.APPLIED]
        for each in (store, other):
            for id in ("done", "dead", "gone"):
                assert await settle(each, transitions.redrive(id, "eve")) == [Outcome.APPLIED]

        here, there = [{job.id: events for job, events in await audited(each, 100) if job} for each in (store, other)]
        assert {id: [replace(event, due_us=0, note="") for event in events] for id, events in here.items()} == {
            id: [replace(event, due_us=0, note="") for event in events] for id, events in there.items()
        }
        assert check(await audited(store, 100)).ok

    async def test_restore_keeps_names_taken(self, store: Store, clock: FakeClock) -> None:
        await twins(store, clock)

        by_id, by_key, by_unique = await enqueue(
            store, new_job("plain"), new_job(idempotency_key="key-done"), new_job(unique_key="unique-retried")
        )
        assert [(job.id, job.was_duplicate) for job in (by_id, by_key, by_unique)] == [
            ("plain", True), ("done", True), ("retried", True),
        ]  # fmt: skip
        [new] = await enqueue(store, new_job("new", unique_key="unique-done"))  # which has ended
        assert not new.was_duplicate
        assert await settle(store, transitions.redrive("done")) == [Outcome.CONFLICT]

    async def test_restore_keeps_jobs_for_their_time(self, store: Store, clock: FakeClock) -> None:
        _, items = await twins(store, clock)
        ends = {
            job.id: (job.completed_us or 0) + DAY * SECOND for job, _ in items if job.id in {"done", "gone", "dead"}
        }
        for id, at in sorted(ends.items(), key=lambda end: end[1]):
            clock.advance((at - 1 - clock.now()) / SECOND)
            await store.prune(100)
            assert (await read(store, id)).status.finished
            clock.advance(0.000001)
            await store.prune(100)
            assert await store.get([id]) == [None]
        assert await store.get(["plain"]) != [None]

    async def test_restore_again_changes_nothing(self, store: Store, clock: FakeClock) -> None:
        _, items = await twins(store, clock)
        before = await audited(store, 100)

        assert await store.restore(items) == [job for job, _ in items]
        assert await audited(store, 100) == before

    async def test_restore_answers_with_who_has_a_name(self, store: Store, clock: FakeClock) -> None:
        items = {job.id: (job, events) for job, events in await lives(clock)}
        [a, b, c] = await enqueue(
            store,
            new_job("plain", params=b"1"),
            new_job("b", idempotency_key="key-done"),
            new_job("c", unique_key="later"),
        )
        [d] = await enqueue(store, new_job("d", unique_key="unique-dead"))

        some = [items[id] for id in ("plain", "done", "later", "dead", "back")]
        assert await store.restore(some) == [a, b, c, None, None]
        assert await store.get(["plain", "done", "later", "d"]) == [a, None, None, d]
        assert await store.get(["dead", "back"]) == [items["dead"][0], items["back"][0]]

    async def test_restore_of_one_id_twice_is_one_job(self, store: Store, clock: FakeClock) -> None:
        item = (await lives(clock))[0]

        assert await store.restore([item, item]) == [None, item[0]]
        assert await find(store) == [item[0]]

    async def test_restore_refuses_a_job_that_is_held(self, store: Store, clock: FakeClock) -> None:
        origin = MemoryStore(clock)
        await enqueue(origin, new_job("held"), new_job("free"))
        await claim_one(origin, id="held")
        items = [(job, events) for job, events in await audited(origin, 10) if job is not None]

        with pytest.raises(WrongState, match="'held' is claimed by worker"):
            await store.restore(items)
        assert await find(store) == []

    async def test_restore_refuses_a_log_that_does_not_lead_to_the_job(self, store: Store, clock: FakeClock) -> None:
        job, events = next(item for item in await lives(clock) if item[0].id == "retried")

        with pytest.raises(WrongState, match="'retried' cannot be restored"):
            await store.restore([(job, events[:-1])])
        assert await find(store) == []

    async def test_restore_sets_the_clock_to_what_came_in(self, store: Store, clock: FakeClock) -> None:
        ahead = type(clock)()
        ahead.advance((clock.now() - ahead.now()) / SECOND + 1000)
        items = await lives(ahead)
        last = max(events[-1].at_us for _, events in items)
        assert last > await store.now()

        await restored(store, items)
        assert await store.now() >= last
        for job in await claim(store):
            assert (job.claimed_us or 0) >= job.created_us
        assert check(await audited(store, 100)).ok

    async def test_restore_of_many_at_once(self, store: Store, clock: FakeClock) -> None:
        origin = MemoryStore(clock)
        many = new_jobs(700, params=b'"' + b"x" * 2000 + b'"', tags=("t",), max_attempts=1000)
        await enqueue(origin, *many)
        for _ in range(150):  # a log of 301 events
            await settle(origin, failed(await claim_one(origin, id=many[3].id), delay=0))
        items = [(job, events) for job, events in await audited(origin, 1000) if job is not None]
        await restored(store, items)

        assert len(await store.log(many[3].id)) == 301
        assert (await store.counts()).pending == 700
        assert {job.id for job, _ in await audited(store, 300) if job} == {draft.id for draft in many}
