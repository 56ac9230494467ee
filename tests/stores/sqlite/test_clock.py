"""The store's clock: it never runs backwards, in any process that shares the file."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from dibs.clock import FakeClock
from dibs.domain.job import Extension, Outcome, Ref
from dibs.stores.sqlite import SqliteStore
from dibs.testing.conformance.builders import (
    claim,
    claim_one,
    completed,
    enqueue,
    enqueue_and_claim,
    expired,
    ids,
    new_job,
    one,
    settle,
)

HOUR = 3600
SECOND = 1_000_000


@pytest.fixture
def other_clock() -> FakeClock:
    return FakeClock()


@pytest_asyncio.fixture
async def other(path: Path, other_clock: FakeClock) -> AsyncIterator[SqliteStore]:
    """The same file, in what might be another process."""
    other = SqliteStore(path, other_clock)
    await other.open()
    yield other
    await other.close()


async def test_jobs_stay_claimable_and_in_order_if_the_clock_is_set_back(store: SqliteStore, clock: FakeClock) -> None:
    await enqueue(store, new_job("a"))
    before = await store.now()
    clock.advance(-3600)
    await enqueue(store, new_job("b"), new_job("c", task="other"))

    assert await store.now() == before
    assert ids(await claim(store)) == ["a", "b", "c"]


async def test_another_process_with_a_clock_that_is_behind(store: SqliteStore, clock: FakeClock, path: Path) -> None:
    behind = SqliteStore(path, FakeClock(start=clock.now() - 3_600_000_000))
    await behind.open()
    await enqueue(behind, new_job("0"))
    await enqueue(store, new_job("a"))
    await enqueue(behind, new_job("b"))
    await enqueue(store, new_job("c"))

    assert await behind.now() == await store.now()
    [jobs] = await behind.claim([one(limit=10)])
    assert ids(jobs) == ["0", "a", "b", "c"]
    await behind.close()


async def test_a_store_that_is_opened_again_goes_on_from_its_newest_job(path: Path, clock: FakeClock) -> None:
    store = SqliteStore(path, clock)
    await store.open()
    await enqueue(store, new_job("a"))
    await store.close()
    clock.advance(-86_400)
    store = SqliteStore(path, clock)
    await store.open()

    assert (await claim_one(store)).id == "a"
    await store.close()


async def test_a_jump_that_one_process_saw_only_while_reading_is_forgotten(
    store: SqliteStore, other: SqliteStore, clock: FakeClock, other_clock: FakeClock
) -> None:
    job = await enqueue_and_claim(other, new_job("a"), lease=60)
    clock.advance(HOUR)
    assert ids(await store.expired(10)) == ["a"]
    await store.get(["a"])
    clock.advance(-HOUR)
    for each in (clock, other_clock):
        each.advance(30)
    assert await other.extend([Extension(job.ref)]) == [Outcome.APPLIED]

    for n in range(5):  # nor does it creep forward again, write by write
        await enqueue(store, new_job(f"{n}"))
        assert await store.expired(10) == []
        assert abs(await store.now() - other_clock.now()) <= SECOND


async def test_a_jump_in_which_one_process_wrote_is_shared(
    store: SqliteStore, other: SqliteStore, clock: FakeClock, other_clock: FakeClock
) -> None:
    job = await enqueue_and_claim(other, new_job("a"), lease=60)
    mine = await enqueue_and_claim(store, new_job("b"))
    clock.advance(HOUR)
    await settle(store, completed(mine))
    jumped = clock.now()
    clock.advance(-HOUR)
    assert await other.extend([Extension(job.ref)]) == [Outcome.APPLIED]
    for each in (clock, other_clock):
        each.advance(120)

    assert await store.now() == await other.now() == jumped
    assert await store.expired(10) == await other.expired(10) == []


async def test_looking_in_vain_writes_nothing_down(store: SqliteStore, clock: FakeClock, path: Path) -> None:
    """A claim that finds nothing, again and again, must not cost a write each time."""
    await enqueue(store, new_job("a", delay=HOUR))
    before = await store.now()
    clock.advance(1)
    assert await claim(store) == []
    assert await store.extend([Extension(Ref("a", 1, "stale"))]) == [Outcome.LOST]
    clock.advance(-1)

    assert await store.now() == before


async def test_what_a_process_wrote_is_never_later_than_its_clock(store: SqliteStore, clock: FakeClock) -> None:
    await enqueue(store, new_job("a"))
    clock.advance(0.4)
    job = await claim_one(store)
    clock.advance(-HOUR)

    assert await store.now() == job.claimed_us


async def test_a_jump_is_forgotten_before_anything_is_taken_away(
    store: SqliteStore, other: SqliteStore, clock: FakeClock
) -> None:
    job = await enqueue_and_claim(other, new_job("a"), lease=60)
    clock.advance(HOUR)
    seen = await store.expired(10)
    clock.advance(-HOUR)
    assert await other.extend([Extension(job.ref)]) == [Outcome.APPLIED]  # at once: the mark in the file does not move

    assert await settle(store, *[expired(late, clock) for late in seen]) == [Outcome.LOST]
    assert await store.expired(10) == []
