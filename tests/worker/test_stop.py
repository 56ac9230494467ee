"""Stopping a worker: what runs may finish, what does not is given back at once, nothing waits for a lease."""

import asyncio
import threading
import time
from typing import Any

import pytest

import dibs
from dibs import App, Job, Status, Worker
from dibs.broker.http import HttpBroker
from dibs.broker.local import LocalBroker
from dibs.worker.handling import Handlers
from tests.worker.conftest import until, until_counts, working


async def statuses(app: App, jobs: list[Job]) -> list[tuple[Status, int]]:
    found = [await app.get(job.id) for job in jobs]
    return [(job.status, job.attempts) for job in found if job is not None]


async def test_what_runs_may_finish_and_the_rest_is_given_back(app: App) -> None:
    started: list[int] = []
    go = asyncio.Event()

    @app.task
    async def quick(n: int) -> None: ...

    @app.task
    async def slow(n: int) -> None:
        started.append(n)
        await go.wait()

    # Many quick ones first: so the worker has a pace that lets it claim ahead.
    await app.enqueue_many([quick.job(n) for n in range(200)])
    jobs = await app.enqueue_many([slow.job(n) for n in range(20)])
    worker = Worker(app, concurrency=4)
    running = asyncio.create_task(worker.run())
    await until(lambda: len(started) == 4)
    await until_counts(app, lambda counts: counts.claimed >= 5)
    worker.stop()
    await until_counts(app, lambda counts: counts.claimed <= 4)
    assert not running.done()
    go.set()
    await asyncio.wait_for(running, 10)

    assert await statuses(app, jobs) == [(Status.COMPLETED, 1)] * 4 + [(Status.PENDING, 0)] * 16
    assert (await app.verify()).ok


async def test_stopped_while_many_are_being_begun(app: App) -> None:
    begun: list[int] = []

    @app.task
    async def slow(n: int) -> None:
        begun.append(n)
        if len(begun) == 1:
            worker.stop()
        await asyncio.sleep(0.01)

    await app.enqueue_many([slow.job(n) for n in range(400)])
    worker = Worker(app, concurrency=1000)
    await asyncio.wait_for(worker.run(), 10)

    counts = await app.counts()
    assert 0 < len(begun) < 400, "what had no place in the first turns is given back"
    assert (counts.completed, counts.pending) == (len(begun), 400 - len(begun))
    assert (await app.verify()).ok


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_after_the_grace_time_the_rest_is_given_back(app: App, kind: str) -> None:
    go, begun = threading.Event(), threading.Event()
    lost: list[bool] = []

    @app.task("async")
    async def on_loop() -> None:
        begun.set()
        await asyncio.sleep(60)

    @app.task("plain")
    def in_thread() -> None:
        claim = dibs.current()
        begun.set()
        go.wait(10)
        lost.append(claim.lost)

    jobs = [await app.enqueue(kind)]
    worker = Worker(app, grace=0.1)
    running = asyncio.create_task(worker.run())
    await until(begun.is_set)  # what is claimed may still be on its way to the worker
    worker.stop()
    await asyncio.wait_for(running, 5)

    assert await statuses(app, jobs) == [(Status.PENDING, 0)]
    go.set()
    if kind == "plain":
        await until(lambda: lost)
        assert lost == [True]
    claim = await app.claim("next")
    assert claim is not None
    assert claim.fence == 2


async def test_stopping_twice_does_not_wait(app: App) -> None:
    begun = asyncio.Event()

    @app.task
    async def slow() -> None:
        begun.set()
        await asyncio.sleep(60)

    jobs = [await slow.enqueue()]
    worker = Worker(app, grace=60)
    running = asyncio.create_task(worker.run())
    await until(begun.is_set)
    began = time.monotonic()
    worker.stop()
    await asyncio.sleep(0.05)
    assert not running.done()
    worker.stop()
    await asyncio.wait_for(running, 10)
    assert time.monotonic() - began < 10
    assert await statuses(app, jobs) == [(Status.PENDING, 0)]


async def test_cancelling_it_gives_everything_back(app: App) -> None:
    @app.task
    async def slow() -> None:
        await asyncio.sleep(60)

    jobs = await app.enqueue_many([slow.job() for _ in range(5)])
    running = asyncio.create_task(Worker(app).run())
    await until_counts(app, lambda counts: counts.claimed >= 5)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await statuses(app, jobs) == [(Status.PENDING, 0)] * 5
    assert [worker.status for worker in await app.workers()] == ["inactive"]


def test_a_loop_that_ends_gives_everything_back(url: str) -> None:
    app = App(url)

    @app.task
    async def slow() -> None:
        await asyncio.sleep(60)

    async def main() -> list[Job]:
        jobs = await app.enqueue_many([slow.job() for _ in range(5)])
        running = asyncio.create_task(Worker(app).run())
        await until_counts(app, lambda counts: counts.claimed >= 5)
        assert not running.done()
        return jobs  # and asyncio.run cancels all that is left, in any order

    jobs = asyncio.run(main())
    found = [app.sync.get(job.id) for job in jobs]
    assert [(job.status, job.attempts) for job in found if job is not None] == [(Status.PENDING, 0)] * 5
    app.sync.close()


async def test_a_handler_that_will_not_be_cancelled_may_still_complete(app: App) -> None:
    started = asyncio.Event()

    @app.task
    async def stubborn() -> str:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "done all the same"
        return "not reached"

    jobs = [await stubborn.enqueue()]
    worker = Worker(app, grace=0)
    running = asyncio.create_task(worker.run())
    await started.wait()
    worker.stop()
    await asyncio.wait_for(running, 10)
    assert await statuses(app, jobs) == [(Status.COMPLETED, 1)]


async def test_what_a_handler_asked_for_as_it_was_cancelled_is_done(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, refusals = asyncio.Event(), iter((0.2, 0.0))  # seconds until each: the handler's own, and the one for it

    @app.task
    async def own() -> str:
        await dibs.current().complete("by itself")
        return "not reached"

    job = await own.enqueue()
    over_http = isinstance(app.runtime.broker(), HttpBroker)
    kind: type[Any] = HttpBroker if over_http else LocalBroker
    name = "settle" if over_http else "_write"
    write = getattr(kind, name)

    async def refusing(*args: Any, **options: Any) -> Any:
        asked.set()
        if (seconds := next(refusals, None)) is None:
            return await write(*args, **options)
        await asyncio.sleep(seconds)
        raise dibs.StoreUnavailable("for a moment")

    monkeypatch.setattr(kind, name, refusing)
    worker = Worker(app, grace=0)
    running = asyncio.create_task(worker.run())
    await asked.wait()
    worker.stop()
    await asyncio.wait_for(running, 10)
    found = await app.get(job.id)
    assert found is not None
    assert (found.status, found.attempts, found.result) == (Status.COMPLETED, 1, "by itself")


async def test_stopped_before_it_runs(app: App) -> None:
    @app.task
    async def never() -> None:
        raise AssertionError

    job = await never.enqueue()
    worker = Worker(app)
    worker.stop()
    await asyncio.wait_for(worker.run(), 10)
    assert await statuses(app, [job]) == [(Status.PENDING, 0)]


async def test_a_lost_lease_cancels_the_handler_and_settles_nothing(app: App, caplog: pytest.LogCaptureFixture) -> None:
    cancelled: list[bool] = []

    @app.task
    async def slow() -> str:
        claim = dibs.current()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.append(claim.lost)
            raise
        return "late"

    job = await slow.enqueue()
    async with working(app, lease=1.0):
        await until_counts(app, lambda counts: counts.claimed >= 1)
        await app.cancel(job.id)
        await until(lambda: cancelled)
    assert cancelled == [True]
    after = await app.get(job.id)
    assert after is not None
    assert (after.status, after.result) == (Status.CANCELLED, None)
    assert "taken over while it ran" in caplog.text


async def test_lost_as_it_starts(app: App) -> None:
    ran: list[str] = []

    @app.task
    def job() -> None:
        ran.append("job")

    await job.enqueue()
    claim = await app.claim("worker")
    assert claim is not None
    claim.disown()
    await Handlers(app.tasks, None).handle(claim, lambda settlement: ran.append(settlement.ending.verb))
    assert ran == []


async def test_a_handler_that_blocks_the_loop_keeps_its_claim(app: App) -> None:
    runs: list[int] = []

    @app.task
    async def blocks() -> None:
        runs.append(dibs.current().fence)
        time.sleep(1.5)  # noqa: ASYNC251 - this is the point

    job = await blocks.enqueue()
    await asyncio.wait_for(Worker(app, lease=0.4).run(until_idle=True), 30)
    after = await app.get(job.id)
    assert after is not None
    assert (runs, after.status, after.fence) == ([1], Status.COMPLETED, 1)
