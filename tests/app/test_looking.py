"""Pages, waiting for a job, watching it, and doing something once."""

import asyncio
from typing import Any

import pytest

import dibs
from dibs import App, FakeClock, InvalidRequest, NewJob, NotFound, Status


async def moving(clock: FakeClock, task: "asyncio.Future[Any]") -> Any:
    """Let time pass until the task is done."""
    while not task.done():
        clock.advance(0.05)
        await asyncio.sleep(0)
    return await task


# Pages


async def test_find_is_read_when_it_is_awaited(app: App) -> None:
    await app.enqueue_many([NewJob("t", number) for number in range(5)])
    page = app.find(limit=2)
    for look in (lambda: page.items, lambda: page.next_cursor):
        with pytest.raises(dibs.WrongState, match="await"):
            look()
    assert await page is page
    assert [job.params for job in page.items] == [4, 3]
    following = await app.find(limit=2, cursor=page.next_cursor)
    assert [job.params for job in following.items] == [2, 1]
    last = await app.find(limit=2, cursor=following.next_cursor)
    assert ([job.params for job in last.items], last.next_cursor) == ([0], None)


async def test_find_loops_over_all_pages(app: App) -> None:
    await app.enqueue_many([NewJob("t", number, tags=["even"] if number % 2 == 0 else []) for number in range(7)])
    assert [job.params async for job in app.find(limit=3)] == [6, 5, 4, 3, 2, 1, 0]
    assert [job.params async for job in app.find(tag="even", status=["pending"])] == [6, 4, 2, 0]
    assert [job.params async for job in await app.find(limit=3)] == [6, 5, 4, 3, 2, 1, 0]
    assert [job async for job in app.find(queue="none")] == []


# Wait and watch


async def test_wait_returns_the_finished_job(app: App, clock: FakeClock) -> None:
    job = await app.enqueue("t")
    waiting = asyncio.create_task(app.wait(job.id))
    claim = await app.claim()
    assert claim is not None
    await claim.complete(5)
    ended = await moving(clock, waiting)
    assert (ended.status, ended.result) == (Status.COMPLETED, 5)
    assert (await app.wait(job.id, timeout=0)).id == job.id


class Stepping(FakeClock):
    """Whoever sleeps moves the time."""

    def __init__(self) -> None:
        super().__init__()
        self.naps: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.advance(seconds)


async def test_wait_gives_up_after_its_timeout(url: str) -> None:
    async with App(url, clock=(clock := Stepping())) as app:
        job = await app.enqueue("t")
        before = clock.monotonic()
        with pytest.raises(TimeoutError, match="within 10 seconds"):
            await app.wait(job.id, timeout=10)
        assert 10 <= clock.monotonic() - before < 10.001


async def test_watching_looks_less_and_less_often(url: str) -> None:
    async with App(url, clock=(clock := Stepping())) as app:
        job = await app.enqueue("t")
        with pytest.raises(TimeoutError):
            await app.wait(job.id, timeout=20)
        assert clock.naps[0] == 0.005
        assert clock.naps[:12] == sorted(clock.naps[:12])
        assert max(clock.naps) == 0.5
        assert len(clock.naps) < 60


async def test_wait_and_watch_for_a_job_that_is_not_there(app: App) -> None:
    with pytest.raises(NotFound):
        await app.wait("nothing")
    with pytest.raises(NotFound):
        await anext(aiter(app.watch("nothing")))


async def test_watch_tells_each_change_and_ends(app: App, clock: FakeClock) -> None:
    job = await app.enqueue("t")
    seen: asyncio.Queue[tuple[str, float | None]] = asyncio.Queue()

    async def watch() -> None:
        async for state in app.watch(job.id):
            seen.put_nowait((state.status, state.progress))

    task = asyncio.create_task(watch())

    async def told() -> tuple[str, float | None]:
        return await moving(clock, asyncio.ensure_future(seen.get()))  # type: ignore[no-any-return]

    assert await told() == ("pending", None)
    claim = await app.claim()
    assert claim is not None
    assert await told() == ("claimed", None)
    await claim.progress(0.5, "half")
    assert await told() == ("claimed", 0.5)
    await claim.complete()
    assert await told() == ("completed", 0.5)
    await task


async def test_wait_for_a_job_that_is_kept_for_no_time(app: App, clock: FakeClock) -> None:
    job = await app.enqueue("t", retention=0)
    waiting = asyncio.create_task(app.wait(job.id))
    await asyncio.sleep(0)
    claim = await app.claim()
    assert claim is not None
    while await app.get(job.id) and not waiting.done():
        await asyncio.sleep(0)
        if not claim.settled:
            await claim.complete()
    ended = await moving(clock, waiting)
    assert (ended.status, ended.attempts) == (Status.COMPLETED, 1)


async def test_wait_for_a_job_that_was_gone_before_the_first_look_says_why(app: App, clock: FakeClock) -> None:
    job = await app.enqueue("t", retention=0)
    claim = await app.claim()
    assert claim is not None
    await claim.complete()
    while await app.get(job.id):
        clock.advance(60)
        await asyncio.sleep(0)
    for look in (app.wait(job.id), anext(aiter(app.watch(job.id)))):
        with pytest.raises(NotFound, match="completed") as caught:
            await look
        assert "retention" in caught.value.hint


# Once


async def test_once_runs_once(app: App) -> None:
    calls: list[int] = []

    def count() -> dict[str, int]:
        calls.append(1)
        return {"calls": len(calls)}

    async def count_async() -> dict[str, int]:
        return count()

    assert await app.once("a", count) == {"calls": 1}
    assert await app.once("a", count_async) == {"calls": 1}
    assert await app.once("a/b", count_async) == {"calls": 2}
    assert await app.once("nothing", lambda: None) is None
    assert await app.once("nothing", lambda: 1) is None


async def test_once_returns_what_the_first_has_written(app: App) -> None:
    async def slow() -> str:
        assert await app.once("k", lambda: "first") == "first"
        return "second"

    assert await app.once("k", slow) == "first"


async def test_once_is_forgotten_after_seven_days(app: App, clock: FakeClock) -> None:
    assert await app.once("k", lambda: 1) == 1
    clock.advance(7 * 86_400 + 1)
    assert await app.once("k", lambda: 2) == 2


async def test_once_keeps_nothing_of_a_function_that_failed(app: App) -> None:
    with pytest.raises(ZeroDivisionError):
        await app.once("k", lambda: 1 / 0)
    with pytest.raises(InvalidRequest, match="result"):
        await app.once("k", object)
    assert await app.once("k", lambda: 2) == 2


@pytest.mark.parametrize(("key", "function"), [("", None), (5, str), ("\0", str), ("x" * 256, str), ("k", 5)])
async def test_once_checks_first(app: App, key: Any, function: Any) -> None:
    with pytest.raises(InvalidRequest):
        await app.once(key, function)
