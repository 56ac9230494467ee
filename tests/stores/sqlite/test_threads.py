"""The desks: merged callers, their errors, cancelled callers, loops that are gone, and no threads at all."""

import asyncio
import threading
from pathlib import Path

import pytest

from dibs.clock import FakeClock
from dibs.domain.errors import StoreUnavailable
from dibs.stores.sqlite import SqliteStore
from dibs.stores.sqlite.moment import Moment
from dibs.testing.conformance.builders import claim, claim_one, completed, enqueue, ids, new_job, one, settle


class Gate:
    """Holds the writer inside a transaction, so that what is asked meanwhile gathers."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._inside, self._open = threading.Event(), threading.Event()

    async def __aenter__(self) -> None:
        def hold(_: Moment) -> None:
            self._inside.set()
            self._open.wait(30)

        self._held = asyncio.ensure_future(self._store._engine.write(hold))
        await asyncio.to_thread(self._inside.wait, 30)

    async def __aexit__(self, *_: object) -> None:
        self._open.set()
        await self._held


def begun(store: SqliteStore, counted: list[int]) -> None:
    begin = store._engine._begin

    def count() -> object:
        counted.append(1)
        return begin()

    store._engine._begin = count  # type: ignore[method-assign,assignment]


async def test_a_crowd_shares_one_commit(store: SqliteStore) -> None:
    transactions: list[int] = []
    begun(store, transactions)
    async with Gate(store):
        waiting = [asyncio.ensure_future(enqueue(store, new_job(f"{n}"))) for n in range(20)]
        await asyncio.sleep(0)
    await asyncio.gather(*waiting)

    assert len(transactions) == 2
    assert ids(await claim(store)) == [f"{n}" for n in range(20)]


async def test_an_error_reaches_only_its_cause(store: SqliteStore) -> None:
    def bad(moment: Moment) -> None:
        moment.execute("DELETE FROM dibs_job")
        raise ZeroDivisionError

    async with Gate(store):
        first = asyncio.ensure_future(enqueue(store, new_job("a", task="new")))
        broken = asyncio.ensure_future(store._engine.write(bad))
        wrong = asyncio.ensure_future(store._engine.write(lambda moment: moment.rows("SELECT missing")))
        last = asyncio.ensure_future(enqueue(store, new_job("b", task="newer")))
        await asyncio.sleep(0)

    assert ids([*await first, *await last]) == ["a", "b"]
    with pytest.raises(ZeroDivisionError):
        await broken
    with pytest.raises(StoreUnavailable, match="no such column: missing"):
        await wrong
    assert [(job.id, job.task) for job in await claim(store)] == [("a", "new"), ("b", "newer")]


async def test_what_was_asked_is_done_though_its_caller_has_gone(store: SqliteStore) -> None:
    async with Gate(store):
        inserting = asyncio.ensure_future(enqueue(store, new_job("a")))
        await asyncio.sleep(0)
        inserting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await inserting

    assert ids(await claim(store)) == ["a"]


async def test_nothing_after_a_commit_makes_it_run_again(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await enqueue(store, *[new_job(f"{n}") for n in range(4)])

    def broken(_: Moment) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(store._engine._waiting, "announce", broken)
    async with Gate(store):
        claiming = [asyncio.ensure_future(claim(store, limit=1)) for _ in range(2)]
        await asyncio.sleep(0)

    assert [ids(await each) for each in claiming] == [["0"], ["1"]]
    assert (await store.counts()).claimed == 2
    assert any("ZeroDivisionError" in (record.exc_text or "") for record in caplog.records)


def test_a_loop_that_is_closed_takes_nothing_with_it(path: Path, clock: FakeClock) -> None:
    store = SqliteStore(path, clock)
    asyncio.run(store.open())
    release = threading.Event()
    loop = asyncio.new_event_loop()

    async def leave() -> None:
        asyncio.ensure_future(store._engine.write(lambda _: release.wait(30)))  # noqa: RUF006  # it is to be lost
        await asyncio.sleep(0)

    loop.run_until_complete(leave())
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    release.set()

    assert ids(asyncio.run(enqueue(store, new_job("a")))) == ["a"]
    asyncio.run(store.close())


async def test_a_closed_store_says_so_and_can_be_opened_again(store: SqliteStore) -> None:
    await enqueue(store, new_job("a"))
    await store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.claim([one()])
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.get(["a"])
    await store.open()
    await store.open()

    assert (await claim_one(store)).id == "a"


async def test_close_finishes_what_was_begun(store: SqliteStore, path: Path, clock: FakeClock) -> None:
    async with Gate(store):
        inserting = asyncio.ensure_future(enqueue(store, new_job("a")))
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(store.close())
        await asyncio.sleep(0)
    await closing

    assert ids(await inserting) == ["a"]


async def test_everything_runs_without_threads(path: Path, clock: FakeClock) -> None:
    clock.threads = False
    before = threading.active_count()
    store = SqliteStore(path, clock)
    await store.open()
    await enqueue(store, new_job("a"), new_job("b", delay=5))
    job = await claim_one(store)
    await settle(store, completed(job))
    waiting = asyncio.ensure_future(store.wait(one(), 60))
    await asyncio.sleep(0)
    clock.advance(5)
    await waiting

    assert (await claim_one(store)).id == "b"
    assert (await store.counts()).completed == 1
    assert threading.active_count() == before
    await store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.now()
