"""The store's clock: it never runs backwards, in any process that shares the file."""

from pathlib import Path

from dibs.clock import FakeClock
from dibs.stores.sqlite import SqliteStore
from dibs.testing.conformance.builders import claim, claim_one, enqueue, ids, new_job, one


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
