"""``app.batch``: what it adds to the broker's own promises, which the broker suite holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import dibs
from dibs.broker.batches import AT_ONCE, BATCHES
from dibs.domain.job import Filter
from dibs.testing import drain, use


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[dibs.App]:
    async with dibs.App(f"sqlite:///{tmp_path / 'jobs.db'}", reap_every=0.2, prune_every=0.5) as app:

        @app.task
        async def work(number: int) -> int:
            return number

        @app.task(queue="reports", max_attempts=7)
        async def report(batch_id: str) -> str:
            return batch_id

        @app.task
        async def plain() -> None: ...

        yield app


async def test_a_batch_from_its_begin_to_its_last_job(app: dibs.App) -> None:
    work, report = app.tasks["work"], app.tasks["report"]
    async with app.batch(on_end=report) as batch:
        assert await batch.add(work.job(number) for number in range(2500)) == 2500
        one = await work.options(batch=batch.id).enqueue(2500)
    assert one.batch_id == batch.id
    assert (await batch.progress()).total == 2501
    with pytest.raises(TimeoutError, match="did not end"):
        await batch.wait(0.01)
    await dibs.Worker(app, concurrency=50).run(until_idle=True)
    info = await batch.wait(30)

    assert (info.completed, info.progress, info.ended) == (2501, 1.0, True)
    [last] = [job async for job in app.find(task="report")]
    assert (last.params, last.queue, last.max_attempts) == ({"batch_id": batch.id}, "reports", 7)
    assert (await app.wait(last.id, 30)).result == batch.id
    assert await app.runtime.broker().documents(BATCHES) == []


async def test_on_end_with_arguments_of_its_own(app: dibs.App) -> None:
    async with app.batch(on_end=app.tasks["work"].options(priority=3).job(42), id="mine") as batch:
        assert batch.id == "mine"
    async with app.batch(on_end=dibs.NewJob("report", {"batch_id": "x"})):
        pass
    [last] = [job async for job in app.find(task="work")]
    assert (last.params, last.priority) == ({"number": 42}, 3)
    [by_name] = [job async for job in app.find(task="report")]
    assert by_name.queue == "reports"  # as the task says


async def test_left_by_an_exception_it_stays_open(app: dibs.App) -> None:
    batch = app.batch(on_end=app.tasks["report"])

    async def fail() -> None:
        async with batch:
            await batch.add([app.tasks["work"].job(1)])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    await drain(app)
    assert (await batch.wait(5)).completed == 1
    assert [job async for job in app.find(task="report")] == []
    await app.batch(id=batch.id, on_end=app.tasks["report"]).seal()
    assert len([job async for job in app.find(task="report")]) == 1


async def test_without_on_end_nothing_is_kept(app: dibs.App) -> None:
    async with app.batch() as batch:
        await batch.add([app.tasks["work"].job(1)])
    assert await app.runtime.broker().documents("") == []


def test_what_cannot_be_is_told_before_anything_is_enqueued(app: dibs.App) -> None:
    with pytest.raises(dibs.InvalidJob, match="batch_id"):
        app.batch(on_end=app.tasks["plain"])
    with pytest.raises(dibs.InvalidJob, match="NewJob"):
        app.batch(on_end="report")  # type: ignore[arg-type]
    for id in ("", "x" * 256):
        with pytest.raises(dibs.InvalidRequest, match="batch_id"):
            app.batch(id=id)


def test_without_an_event_loop(tmp_path: Path) -> None:
    app = dibs.App(f"sqlite:///{tmp_path / 'jobs.db'}")

    @app.task
    def work(number: int) -> None: ...

    def jobs() -> Iterator[dibs.NewJob]:
        import threading

        assert threading.current_thread() is threading.main_thread()
        yield from (work.job(number) for number in range(3))

    with app.sync as queue:
        with queue.batch(on_end=work.job(99)) as batch:
            assert batch.add(jobs()) == 3
        assert batch.progress().pending == 3
        asyncio.run(drain(app))
        assert batch.wait(5).completed == 3
        assert [job.params for job in queue.find(batch_id=batch.id)] != []


async def test_one_who_dies_before_it_looks_leaves_it_to_maintenance(app: dibs.App) -> None:
    """Settled on a connection of another kind of process: no one there looks at batches."""
    async with app.batch(on_end=app.tasks["report"]) as batch:
        await batch.add([app.tasks["work"].job(1)])
    claim = await app.claim("w", tasks=["work"])  # and this process maintains from now on
    assert claim is not None
    from dibs.broker.connect import open_store
    from dibs.domain import transitions

    store = open_store(app.url, app.runtime.clock)
    await store.write([transitions.complete(claim.ref)])
    await store.close()
    async with asyncio.timeout(20):
        while not (found := [job async for job in app.find(task="report")]):  # noqa: ASYNC110 - maintenance makes it so
            await asyncio.sleep(0.05)
    assert len(found) == 1


async def test_many_batches_are_looked_at_in_parts(app: dibs.App) -> None:
    with use(app):
        broker = app.runtime.broker()
        for number in range(AT_ONCE + 20):
            await app.enqueue("work", {"number": number}, batch=f"b-{number}")
            await broker.seal(f"b-{number}", dibs.NewJob("report", {"batch_id": f"b-{number}"}))
        runs = [run for _ in range(50) for run in await drain(app)]
        found, _ = await broker.find(Filter(task="report"), limit=1000, cursor=None)
        assert len(runs) >= AT_ONCE + 20
        assert len({job.params["batch_id"] for job in found}) == len(found) == AT_ONCE + 20
