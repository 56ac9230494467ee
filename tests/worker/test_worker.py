"""The worker: what its handlers see, and how their jobs end."""

import asyncio
import threading
import time
from functools import partial
from typing import Any

import pytest

import dibs
from dibs import App, Status, Worker
from tests.worker.conftest import read, until, until_counts, work, working


async def test_async_and_plain_handlers_run_with_their_arguments(app: App) -> None:
    seen: list[tuple[str, str, int]] = []

    @app.task
    async def on_loop(name: str, *, size: int = 1) -> dict[str, int]:
        seen.append((threading.current_thread().name, name, size))
        return {"size": size}

    @app.task
    def in_thread(name: str, /, size: int = 1) -> str:
        seen.append((threading.current_thread().name, name, size))
        return name

    first, second = await on_loop.enqueue("a", size=3), await in_thread.enqueue("b")
    await work(app)

    (loop, *there), (thread, *elsewhere) = sorted(seen)
    assert (loop, there, elsewhere) == ("MainThread", ["a", 3], ["b", 1])
    assert thread.startswith("dibs-handler")
    assert [(job.status, job.result, job.attempts) for job in (await read(app, first), await read(app, second))] == [
        (Status.COMPLETED, {"size": 3}, 1),
        (Status.COMPLETED, "b", 1),
    ]


async def test_current_is_the_claim_of_the_handler(app: App) -> None:
    fences: dict[str, tuple[str, int, int]] = {}

    def note() -> None:
        claim = dibs.current()
        fences[claim.task] = (claim.id, claim.fence, claim.attempt)

    @app.task
    async def on_loop() -> None:
        await asyncio.sleep(0)
        note()

    @app.task
    def in_thread() -> None:
        note()
        dibs.current().sync.progress(0.5, "half")

    first, second = await on_loop.enqueue(), await in_thread.enqueue()
    await work(app)

    assert fences == {"on_loop": (first.id, 1, 1), "in_thread": (second.id, 1, 1)}
    assert (await read(app, second)).progress_note == "half"
    with pytest.raises(dibs.WrongState):
        dibs.current()


async def test_a_job_that_was_enqueued_by_name_without_params(app: App) -> None:
    @app.task
    async def nothing() -> str:
        return "ran"

    job = await app.enqueue("nothing")
    await work(app)
    assert (await read(app, job)).result == "ran"


@pytest.mark.parametrize("kind", ["async", "plain"])
@pytest.mark.parametrize(
    ("error", "status", "attempts", "kept"),
    [
        (ValueError("broken"), Status.FAILED, 2, "ValueError: broken"),
        (dibs.Retry("later", delay=0), Status.FAILED, 2, "Retry: later"),
        (dibs.Retry("later", delay=3600), Status.PENDING, 1, "Retry: later"),
        (dibs.Retry("later", delay=-1), Status.FAILED, 2, "InvalidRequest"),
        (dibs.Fail("never", code="E1"), Status.FAILED, 1, "Fail: never"),
        (dibs.Snooze(3600), Status.PENDING, 0, None),
        (SystemExit(3), Status.FAILED, 2, "SystemExit: 3"),
        (StopIteration("x"), Status.FAILED, 2, "StopIteration|RuntimeError"),
        (asyncio.CancelledError(), Status.FAILED, 2, "RuntimeError|CancelledError"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
async def test_what_a_handler_raises_decides(
    app: App, kind: str, error: BaseException, status: Status, *, attempts: int, kept: str | None
) -> None:
    @app.task("async", retry=dibs.Backoff(0, 0))
    async def on_loop() -> None:
        raise error

    @app.task("plain", retry=dibs.Backoff(0, 0))
    def in_thread() -> None:
        raise error

    job = await app.enqueue(kind, max_attempts=2)
    await work(app)

    after = await read(app, job)
    assert (after.status, after.attempts) == (status, attempts)
    found = None if after.error is None else f"{after.error.kind}: {after.error.message}"
    assert found is kept or (found is not None and any(found.startswith(part) for part in (kept or "").split("|")))


async def test_params_that_do_not_fit_are_a_dead_letter_at_once(app: App) -> None:
    @app.task
    async def typed(a: int) -> None:
        raise AssertionError("it must not run")

    jobs = [await app.enqueue("typed", params) for params in ({"b": 1}, [1], {}, {"a": 1, "b": 2})]
    await work(app)

    for job in jobs:
        after = await read(app, job)
        assert (after.status, after.attempts) == (Status.FAILED, 1)
        assert after.error is not None
        assert after.error.code == "invalid_params"


@pytest.mark.parametrize("result", [object(), float("nan"), "x" * 2_000_000], ids=["object", "nan", "large"])
async def test_a_result_that_cannot_be_stored_fails_the_job_and_no_other(app: App, result: Any) -> None:
    @app.task
    async def bad() -> Any:
        return result

    @app.task
    async def good() -> str:
        return "good"

    wrong = await bad.enqueue()
    right = [await good.enqueue() for _ in range(5)]
    await work(app)

    after = await read(app, wrong)
    assert (after.status, after.attempts) == (Status.FAILED, 1)
    assert after.error is not None
    assert "result" in after.error.message
    assert [(await read(app, job)).result for job in right] == ["good"] * 5


async def test_a_handler_that_settles_its_claim_itself(app: App) -> None:
    @app.task
    async def completes() -> str:
        await dibs.current().complete("mine")
        return "not mine"

    @app.task
    async def fails_after_that() -> None:
        await dibs.current().complete("mine")
        raise ValueError("too late")

    @app.task
    def releases() -> None:
        dibs.current().sync.release(delay=3600)

    jobs = [await task.enqueue() for task in (completes, fails_after_that, releases)]
    await work(app)

    first, second, third = [await read(app, job) for job in jobs]
    assert (first.status, first.result) == (Status.COMPLETED, "mine")
    assert (second.status, second.result) == (Status.COMPLETED, "mine")
    assert (third.status, third.attempts) == (Status.PENDING, 0)


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_timeout_fails_the_attempt_and_the_worker_goes_on(app: App, kind: str) -> None:
    told: list[bool] = []

    @app.task("async")
    async def on_loop() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            told.append(True)

    @app.task("plain")
    def in_thread() -> None:
        claim = dibs.current()
        end = time.monotonic() + 10
        while not claim.lost and time.monotonic() < end:
            time.sleep(0.01)
        told.append(claim.lost)

    @app.task
    async def other() -> None: ...

    job = await app.enqueue(kind, max_attempts=1, timeout=0.1)
    after = await other.enqueue()
    async with working(app, concurrency=1):
        assert (await app.wait(job.id, 10)).status is Status.FAILED
        assert (await app.wait(after.id, 10)).status is Status.COMPLETED

    failed = await read(app, job)
    assert failed.error is not None
    assert (failed.error.kind, told) == ("timeout", [True])
    assert "0.1 seconds" in failed.error.message


async def test_a_timeout_error_of_its_own_is_no_timeout_of_the_job(app: App) -> None:
    @app.task
    async def times_out() -> None:
        async with asyncio.timeout(0):
            await asyncio.sleep(1)

    job = await times_out.options(max_attempts=1, timeout=30).enqueue()
    await work(app)
    error = (await read(app, job)).error
    assert error is not None
    assert error.kind == "TimeoutError"


async def test_no_more_handlers_than_places(app: App) -> None:
    running = most = 0

    @app.task
    async def count() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1

    await app.enqueue_many([count.job() for _ in range(50)])
    await work(app, concurrency=4)
    assert most == 4
    assert (await app.counts()).completed == 50


async def test_the_first_of_many_end_before_the_last_begin(app: App) -> None:
    """A thousand places are not filled in one go: the loop, and the next claim, would wait for all of it."""
    told: list[str] = []

    @app.task
    async def brief() -> None:
        told.append("begun")
        await asyncio.sleep(0)
        told.append("ended")

    await app.enqueue_many([brief.job() for _ in range(400)])
    await work(app, concurrency=1000)
    last = len(told) - told[::-1].index("begun")
    assert "ended" in told[:last]
    assert (await app.counts()).completed == 400


async def test_handlers_in_threads_run_at_once(app: App) -> None:
    barrier = threading.Barrier(5)

    @app.task
    def meet() -> None:
        barrier.wait(10)

    await app.enqueue_many([meet.job() for _ in range(5)])
    await work(app, concurrency=5)
    assert (await app.counts()).completed == 5


async def test_a_slow_worker_claims_no_more_than_it_can_start(app: App) -> None:
    go = asyncio.Event()

    @app.task
    async def slow() -> None:
        await go.wait()

    await app.enqueue_many([slow.job() for _ in range(10)])
    async with working(app, concurrency=2, prefetch=8):
        await asyncio.sleep(0.3)
        assert (await app.counts()).claimed == 2
        go.set()
        await until_counts(app, lambda counts: counts.completed >= 10)


async def test_only_the_named_tasks_and_queues(app: App) -> None:
    @app.task
    async def one() -> None: ...

    @app.task
    async def two() -> None: ...

    jobs = [await one.enqueue(), await two.enqueue(), await one.options(queue="other").enqueue()]
    unknown = await app.enqueue("unknown")
    await work(app, tasks=["one"], queues=["default"])
    assert [(await read(app, job)).status for job in (*jobs, unknown)] == [
        Status.COMPLETED, Status.PENDING, Status.PENDING, Status.PENDING,
    ]  # fmt: skip


async def test_tasks_defined_elsewhere(app: App) -> None:
    tasks = dibs.Tasks()

    @tasks.task
    async def elsewhere(a: int) -> int:
        return a + 1

    app.include(tasks)
    job = await elsewhere.enqueue(1)
    await work(app)
    assert (await read(app, job)).result == 2


async def test_a_callable_object_may_be_a_task(app: App) -> None:
    class Handler:
        async def __call__(self, a: int) -> int:
            return a * 2

    app.task("object")(Handler())
    app.task("partial")(partial(divmod, 17))
    jobs = [await app.enqueue("object", {"a": 4}), await app.enqueue("partial", {"y": 5})]
    await work(app)
    assert [(await read(app, job)).result for job in jobs] == [8, [3, 2]]


async def test_jobs_that_come_while_it_waits_are_picked_up(app: App) -> None:
    @app.task
    async def echo(a: int) -> int:
        return a

    async with working(app):
        for number in range(5):
            job = await echo.enqueue(number)
            assert (await app.wait(job.id, 10)).result == number


async def test_a_retried_job_is_not_idle(app: App) -> None:
    attempts: list[int] = []

    @app.task(max_attempts=3, retry=dibs.Backoff(0, 0))
    async def third_time() -> None:
        attempts.append(dibs.current().attempt)
        if len(attempts) < 3:
            raise ValueError

    await third_time.enqueue()
    await work(app)
    assert attempts == [1, 2, 3]
    assert (await app.counts()).completed == 1


async def test_workers_are_seen(app: App) -> None:
    go, seen = asyncio.Event(), asyncio.Event()

    @app.task
    async def slow() -> None:
        seen.set()
        await go.wait()

    await slow.enqueue()
    async with working(app, worker_id="w1", queues=["default"]):
        await until_counts(app, lambda counts: counts.claimed == 1)
        await until(seen.is_set)
        async with asyncio.timeout(10):
            while not (await app.workers())[0].metadata:  # noqa: ASYNC110 - it beats when it comes to it
                await asyncio.sleep(0.005)
        [info] = await app.workers()
        assert (info.worker_id, info.status) == ("w1", "active")
        assert (info.metadata["tasks"], info.metadata["queues"]) == (["slow"], ["default"])
        go.set()
    [info] = await app.workers()
    assert (info.status, info.active_tasks) == ("inactive", 0)


async def test_the_log_proves_it(app: App) -> None:
    @app.task(retry=dibs.Backoff(0, 0))
    async def sometimes(n: int) -> None:
        if n % 7 == 0:
            raise ValueError
        if n % 11 == 0:
            raise dibs.Fail

    await app.enqueue_many([sometimes.job(n) for n in range(500)])
    await work(app, concurrency=50)
    report = await app.verify()
    assert (report.ok, report.jobs) == (True, 500)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": "4"}, "concurrency"),
        ({"prefetch": -1}, "prefetch"),
        ({"grace": -1}, "grace"),
        ({"grace": "soon"}, "grace"),
        ({"lease": 0}, "lease"),
        ({"queues": "mail"}, "queues"),
        ({"queues": ["a b"]}, "queues"),
        ({"tasks": "known"}, "tasks"),
        ({"tasks": []}, "tasks"),
        ({"tasks": ["unknown"]}, "tasks"),
        ({"worker_id": "a b"}, "worker_id"),
        ({"worker_id": 7}, "worker_id"),
    ],
)
def test_nonsense_is_refused_before_it_starts(options: dict[str, Any], field: str) -> None:
    app = App("memory://")

    @app.task
    async def known() -> None: ...

    with pytest.raises(dibs.InvalidRequest) as error:
        Worker(app, **options)
    assert error.value.problems[0].field.startswith(field)


def test_an_app_without_tasks_has_nothing_to_run() -> None:
    with pytest.raises(dibs.InvalidRequest, match=r"@app\.task"):
        Worker(App("memory://"))


async def test_a_worker_runs_once(app: App) -> None:
    @app.task
    async def known() -> None: ...

    worker = Worker(app)
    await worker.run(until_idle=True)
    with pytest.raises(dibs.WrongState, match="another"):
        await worker.run()


@pytest.mark.parametrize("until_idle", [False, True])
async def test_the_last_job_of_a_batch_comes_soon_after_the_others_have_ended(app: App, until_idle: bool) -> None:
    """Much sooner than maintenance looks, which is every half minute or so."""
    ended: list[str] = []

    @app.task
    async def part(number: int) -> None: ...

    @app.task
    async def whole(batch_id: str) -> None:
        ended.append(batch_id)

    async with app.batch(on_end=whole) as batch:
        await batch.add(part.job(number) for number in range(20))
    if until_idle:
        await work(app, concurrency=3)
    else:
        async with working(app, concurrency=3):
            await until(lambda: ended)
    assert ended == [batch.id]
    assert (await batch.progress()).completed == 20
