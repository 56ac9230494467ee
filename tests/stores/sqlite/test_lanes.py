"""Lanes: their bounds are bounds, claims correct them, and the order is exact whatever they are."""

import asyncio
from random import Random
from typing import Any

import pytest

from dibs.clock import FakeClock
from dibs.domain.job import NEVER, Order
from dibs.domain.transitions import cancel
from dibs.stores.sqlite import SqliteStore, claiming
from dibs.stores.sqlite.moment import Moment
from dibs.stores.sqlite.reading import peek
from dibs.testing.conformance.builders import claim, claim_one, enqueue, ids, new_job, one, pause, released, settle


async def bounds(store: SqliteStore) -> dict[str, int]:
    def read(moment: Moment) -> dict[str, int]:
        return dict(moment.rows("SELECT task, next_due FROM dibs_lane"))

    return await store._engine.read(read)


async def check_bounds(store: SqliteStore) -> None:
    def wrong(moment: Moment) -> list[object]:
        return list(
            moment.rows(
                "SELECT lane.id FROM dibs_lane AS lane JOIN dibs_job AS job ON job.lane = lane.id"
                " WHERE job.status = 'pending' AND job.due < lane.next_due"
            )
        )

    assert await store._engine.read(wrong) == []


async def test_a_lane_that_ran_dry_is_closed_at_once(store: SqliteStore, clock: FakeClock) -> None:
    await enqueue(store, new_job("a"), new_job("b"), new_job("c", delay=60))
    due = clock.now() + 60_000_000
    await claim_one(store)
    assert (await bounds(store))["task"] < due
    await claim_one(store)
    assert (await bounds(store))["task"] == due
    clock.advance(60)
    await claim_one(store)
    assert (await bounds(store))["task"] == NEVER


async def test_a_busy_lane_is_not_written_to(store: SqliteStore) -> None:
    await enqueue(store, *[new_job() for _ in range(5)])
    before = await bounds(store)
    await claim(store, limit=4)
    assert await bounds(store) == before


async def test_a_bound_that_was_too_early_is_corrected_by_one_claim(store: SqliteStore) -> None:
    await enqueue(store, new_job("a"))
    await settle(store, cancel("a"))
    assert (await bounds(store))["task"] < NEVER

    assert await claim(store) == []
    assert (await bounds(store))["task"] == NEVER


async def test_what_comes_back_opens_its_lane(store: SqliteStore) -> None:
    await enqueue(store, new_job("a"))
    job = await claim_one(store)
    assert (await bounds(store))["task"] == NEVER
    await settle(store, released(job))

    assert (await claim_one(store)).id == "a"


async def test_a_paused_queue_keeps_its_bound(store: SqliteStore) -> None:
    await enqueue(store, new_job("a", queue="q"))
    before = await bounds(store)
    await pause(store, "q")

    assert await claim(store) == []
    assert await bounds(store) == before


@pytest.mark.parametrize("seed", range(6))
async def test_lanes_are_merged_exactly(store: SqliteStore, clock: FakeClock, seed: int) -> None:
    random = Random(seed)
    waiting: list[tuple[int, int, int, str]] = []
    number = 0
    for _ in range(40):
        for _ in range(random.randrange(6)):
            number += 1
            delay = random.choice([0, 0, 0, 1, 3])
            priority = random.choice([0, 0, 1, -1])
            draft = new_job(f"j{number}", task=random.choice("abcde"), priority=priority, delay=delay)
            [job] = await enqueue(store, draft)
            waiting.append((-priority, job.due_us, number, job.id))
        limit = random.choice([1, 1, 2, 5])
        due = sorted(entry for entry in waiting if entry[1] <= clock.now())[:limit]
        assert ids(await claim(store, limit=limit)) == [id for *_, id in due]
        waiting = [entry for entry in waiting if entry not in due]
        await check_bounds(store)
        clock.advance(random.choice([0, 0.5, 1]))


async def expects(store: SqliteStore, **asked: Any) -> int:
    """Say when a waiter is told to look."""
    return await store._engine.read(lambda moment: peek(moment, one(**asked)))


@pytest.mark.parametrize("order", Order)
async def test_a_waiter_is_not_told_to_look_where_nothing_is_left(
    store: SqliteStore, clock: FakeClock, order: Order
) -> None:
    await enqueue(store, new_job("a"), new_job("b", task="other"), new_job("c", delay=60))
    assert await expects(store, order=order) == clock.now()
    while await claim(store, order=order):
        pass

    assert await expects(store, order=order) == clock.now() + 60_000_000
    assert await expects(store, order=order, queues=("default",)) == clock.now() + 60_000_000
    assert await expects(store, order=order, tasks=("other",)) == NEVER


async def test_waiters_of_different_orders_are_looked_after_apart(store: SqliteStore) -> None:
    waiting = [asyncio.ensure_future(store.wait(one(order=order), 3600)) for order in Order]
    await asyncio.sleep(0)
    assert len(store._engine._waiting._groups()) == len(Order)
    await enqueue(store, new_job("a"))

    await asyncio.gather(*waiting)


@pytest.mark.parametrize("order", [Order.PRIORITY, Order.PRIORITY_ASC])
@pytest.mark.parametrize("queues", [None, ("default",)])
async def test_priorities_in_which_nothing_is_due_cost_no_statement_each(
    store: SqliteStore, order: Order, queues: tuple[str, ...] | None
) -> None:
    await enqueue(store, *[new_job(priority=n, delay=60) for n in range(-300, 300)])
    await enqueue(store, new_job("a", priority=7), new_job("b", priority=-7))

    def traced(moment: Moment) -> list[str]:
        statements: list[str] = []
        moment.connection.exec_trace = lambda _cursor, sql, _bindings: not statements.append(sql)  # type: ignore[func-returns-value]
        try:
            claiming.claim(moment, [one(order=order, queues=queues)])
        finally:
            moment.connection.exec_trace = None
        return statements

    assert len(await store._engine.write(traced)) < 12
    assert ids(await claim(store, order=order)) == ["b" if order is Order.PRIORITY else "a"]


async def test_random_gives_every_due_job_a_chance(store: SqliteStore) -> None:
    await enqueue(store, *[new_job(f"j{n}", task="ab"[n % 2]) for n in range(6)])
    seen = set()
    for _ in range(200):
        [jobs] = await store.claim([one(limit=2, order=Order.RANDOM)])
        assert len({job.id for job in jobs}) == 2
        seen |= {job.id for job in jobs}
        await settle(store, *[released(job) for job in jobs])
    assert len(seen) == 6


async def test_unused_lanes_are_pruned_and_come_back(store: SqliteStore) -> None:
    await enqueue(store, new_job("a", task="kept"), new_job("b", task="gone", keep=0))
    held = await claim_one(store, id="a")
    await claim_one(store, id="b")
    await settle(store, cancel("b"))
    await store.prune(10)
    assert set(await bounds(store)) == {"kept"}

    await enqueue(store, new_job("c", task="gone"))
    await settle(store, released(held))
    assert {(job.id, job.task) for job in await claim(store)} == {("a", "kept"), ("c", "gone")}
