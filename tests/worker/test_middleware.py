"""Middleware: what an app wraps around its handlers, on the loop and in threads, and what becomes of their jobs."""

import asyncio
import threading
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import dibs
from dibs import App, Call, Claim, Status, Worker
from dibs.testing import drain
from tests.worker import process_work
from tests.worker.conftest import read, until, until_counts, work, working

KINDS = pytest.mark.parametrize("kind", ["async", "plain"])


def both(app: App, handler: Any) -> None:
    """Make an async task and a plain one that do the same, named after their kind."""

    @app.task("async", retry=dibs.Backoff(0, 0))
    async def on_loop(a: int = 1) -> Any:
        return handler(a)

    @app.task("plain", retry=dibs.Backoff(0, 0))
    def in_thread(a: int = 1) -> Any:
        return handler(a)


@KINDS
async def test_the_first_added_is_the_outermost(app: App, kind: str) -> None:
    told: list[str] = []

    def layer(name: str) -> None:
        @app.middleware
        async def tell(claim: Claim, call: Call) -> Any:
            told.append(f"{name} before")
            result = await call()
            told.append(f"{name} after {result}")
            return result

    for name in ("outer", "middle", "inner"):
        layer(name)

    def handler(a: int) -> int:
        told.append("handler")
        return a

    both(app, handler)
    await app.enqueue(kind, {"a": 7})
    await work(app)
    assert told == [
        "outer before", "middle before", "inner before", "handler", "inner after 7", "middle after 7", "outer after 7",
    ]  # fmt: skip
    assert len(app.layers) == 3


@KINDS
async def test_what_it_returns_is_the_result(app: App, kind: str) -> None:
    @app.middleware
    async def more(claim: Claim, call: Call) -> Any:
        return {"was": await call(), "task": claim.task}

    both(app, lambda a: a + 1)
    job = await app.enqueue(kind, {"a": 1})
    await work(app)
    assert (await read(app, job)).result == {"was": 2, "task": kind}


async def test_one_that_does_not_call_is_the_result_itself(app: App) -> None:
    ran: list[str] = []

    @app.middleware
    async def instead(claim: Claim, call: Call) -> str:
        return "instead"

    @app.middleware
    async def inner(claim: Claim, call: Call) -> Any:
        ran.append("inner")
        return await call()

    both(app, lambda a: ran.append("handler"))
    jobs = [await app.enqueue(kind) for kind in ("async", "plain")]
    await work(app)
    assert [(await read(app, job)).result for job in jobs] == ["instead"] * 2
    assert ran == []


async def test_a_result_that_cannot_be_stored_fails_the_job(app: App) -> None:
    @app.middleware
    async def nonsense(claim: Claim, call: Call) -> Any:
        return object()

    both(app, lambda a: a)
    job = await app.enqueue("async")
    await work(app)
    after = await read(app, job)
    assert (after.status, after.attempts) == (Status.FAILED, 1)


@KINDS
@pytest.mark.parametrize("place", ["before", "after", "instead"])
@pytest.mark.parametrize(
    ("error", "status", "attempts", "kept"),
    [
        (ValueError("broken"), Status.FAILED, 2, "ValueError: broken"),
        (dibs.Retry("later", delay=3600), Status.PENDING, 1, "Retry: later"),
        (dibs.Fail("never", code="E1"), Status.FAILED, 1, "Fail: never"),
        (dibs.Snooze(3600), Status.PENDING, 0, None),
        (SystemExit(3), Status.FAILED, 2, "SystemExit: 3"),
        (asyncio.CancelledError(), Status.FAILED, 2, "RuntimeError: the handler raised CancelledError"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
async def test_what_it_raises_decides(
    kind: str, place: str, error: BaseException, status: Status, *, attempts: int, kept: str | None
) -> None:
    async with App("memory://") as app:

        @app.middleware
        async def raises(claim: Claim, call: Call) -> Any:
            if place == "before":
                raise error
            try:
                return await call()
            finally:
                raise error

        def handler(a: int) -> None:
            if place == "instead":
                raise KeyError("the handler's own")

        both(app, handler)
        job = await app.enqueue(kind, max_attempts=2)
        await work(app)
        after = await read(app, job)
        assert (after.status, after.attempts) == (status, attempts)
        found = None if after.error is None else f"{after.error.kind}: {after.error.message}"
        assert found is kept or (found is not None and kept is not None and found.startswith(kept))


@KINDS
async def test_it_hears_what_the_handler_raises(app: App, kind: str) -> None:
    heard: list[BaseException] = []

    @app.middleware
    async def report(claim: Claim, call: Call) -> Any:
        try:
            return await call()
        except BaseException as error:
            heard.append(error)
            if isinstance(error, ValueError):
                raise dibs.Retry("the other side is away", delay=0) from error
            raise

    errors = iter((ValueError("a"), dibs.Snooze(0), SystemExit(3), dibs.Fail("b")))

    def handler(a: int) -> None:
        raise next(errors)

    both(app, handler)
    job = await app.enqueue(kind, max_attempts=9)
    await work(app)
    assert [type(error) for error in heard] == [ValueError, dibs.Snooze, SystemExit, dibs.Fail]
    after = await read(app, job)
    assert (after.status, after.attempts) == (Status.FAILED, 3)


@KINDS
async def test_it_hears_of_params_that_do_not_fit(app: App, kind: str) -> None:
    heard: list[str | None] = []

    @app.middleware
    async def report(claim: Claim, call: Call) -> Any:
        try:
            return await call()
        except dibs.Fail as error:
            heard.append(error.code)
            if claim.params == {"later": 1}:
                raise dibs.Snooze(3600) from error  # for a worker that knows it
            raise

    both(app, lambda a: a)
    first, second = await app.enqueue(kind, {"b": 1}), await app.enqueue(kind, {"later": 1})
    await work(app)
    assert heard == ["invalid_params"] * 2
    after = await read(app, first)
    assert (after.status, after.attempts, after.error and after.error.code) == (Status.FAILED, 1, "invalid_params")
    assert (await read(app, second)).status is Status.PENDING


@KINDS
async def test_it_may_not_call_twice(app: App, kind: str) -> None:
    ran: list[int] = []

    @app.middleware
    async def again_and_again(claim: Claim, call: Call) -> Any:
        await call()
        return await call()

    both(app, ran.append)
    job = await app.enqueue(kind, max_attempts=1)
    await work(app)
    after = await read(app, job)
    assert (ran, after.status) == ([1], Status.FAILED)
    assert after.error is not None
    assert after.error.kind == "WrongState"
    assert after.error.message.startswith("middleware again_and_again ran its job twice")


@KINDS
async def test_it_runs_within_the_claim_and_shares_its_context(app: App, kind: str) -> None:
    request: ContextVar[str] = ContextVar("request", default="none")
    seen: list[Any] = []

    @app.middleware
    async def give(claim: Claim, call: Call) -> Any:
        assert dibs.current() is claim
        assert not claim.lost
        seen.append((request.get(), threading.current_thread().name))  # nothing of the job before is left
        request.set(f"of {claim.params['a']}")
        await dibs.current().progress(0.5, "half")
        return await call()

    def handler(a: int) -> None:
        seen.append((request.get(), dibs.current().params["a"]))

    both(app, handler)
    jobs = [await app.enqueue(kind, {"a": number}) for number in (1, 2)]
    await work(app, concurrency=1)
    assert seen == [("none", "MainThread"), ("of 1", 1), ("none", "MainThread"), ("of 2", 2)]
    assert (await read(app, jobs[0])).progress_note == "half"


async def test_a_handler_that_settles_its_claim_itself_has_settled_it(app: App) -> None:
    @app.middleware
    async def other(claim: Claim, call: Call) -> str:
        await call()
        return "not this"

    @app.task("async")
    async def on_loop() -> None:
        await dibs.current().complete("mine")

    @app.task("plain")
    def in_thread() -> None:
        dibs.current().sync.complete("mine")

    jobs = [await app.enqueue(kind) for kind in ("async", "plain")]
    await work(app)
    assert [(await read(app, job)).result for job in jobs] == ["mine"] * 2


class Hanging:
    """Handlers of both kinds that go on until they are told to end, within a middleware that tells how it was left."""

    def __init__(self, app: App) -> None:
        self.go = threading.Event()
        self.begun = 0
        self.left: list[tuple[str, bool]] = []
        self.thread_lost: list[bool] = []

        @app.middleware
        async def watch(claim: Claim, call: Call) -> Any:
            if claim.task == "other":
                return await call()
            try:
                return await call()
            except BaseException as error:
                self.left.append((type(error).__name__, claim.lost))
                raise

        @app.task("async")
        async def on_loop() -> None:
            self.begun += 1
            await asyncio.sleep(60)

        @app.task("plain")
        def in_thread() -> None:
            claim = dibs.current()
            self.begun += 1
            self.go.wait(20)
            self.thread_lost.append(claim.lost)

        @app.task("other")
        async def other() -> None: ...


@KINDS
async def test_a_timeout_cancels_it_and_fails_the_attempt(app: App, kind: str) -> None:
    hanging = Hanging(app)
    job = await app.enqueue(kind, max_attempts=1, timeout=0.1)
    async with working(app, concurrency=1, prefetch=0):
        assert (await app.wait(job.id, 10)).status is Status.FAILED
        after = await app.enqueue("other")
        if kind == "plain":  # a thread cannot be stopped: it is told, and has its place until it returns
            await asyncio.sleep(0.2)
            assert (await read(app, after)).status is Status.PENDING
            hanging.go.set()
        assert (await app.wait(after.id, 10)).status is Status.COMPLETED
    failed = await read(app, job)
    assert failed.error is not None
    assert (failed.error.kind, hanging.left) == ("timeout", [("CancelledError", False)])
    assert hanging.thread_lost == ([True] if kind == "plain" else [])


async def test_its_own_time_counts(app: App) -> None:
    @app.middleware
    async def slow(claim: Claim, call: Call) -> Any:
        await asyncio.sleep(60)
        return await call()

    both(app, lambda a: a)
    jobs = [await app.enqueue(kind, max_attempts=1, timeout=0.05) for kind in ("async", "plain")]
    await work(app)
    errors = [(await read(app, job)).error for job in jobs]
    assert [error and error.kind for error in errors] == ["timeout"] * 2


@KINDS
async def test_a_lost_lease_cancels_it_and_settles_nothing(
    app: App, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    hanging = Hanging(app)
    job = await app.enqueue(kind)
    async with working(app, lease=1.0, concurrency=1, prefetch=0):
        await until(lambda: hanging.begun)
        await app.cancel(job.id)
        await until(lambda: hanging.left)
        after = await app.enqueue("other")
        if kind == "plain":
            await asyncio.sleep(0.2)
            assert (await read(app, after)).status is Status.PENDING
            hanging.go.set()
        assert (await app.wait(after.id, 10)).status is Status.COMPLETED
    assert hanging.left == [("CancelledError", True)]
    assert (await read(app, job)).status is Status.CANCELLED
    assert "taken over while it ran" in caplog.text
    assert hanging.thread_lost == ([True] if kind == "plain" else [])


@KINDS
async def test_a_stop_cancels_it_and_gives_the_job_back(app: App, kind: str) -> None:
    hanging = Hanging(app)
    job = await app.enqueue(kind)
    worker = Worker(app, grace=0)
    running = asyncio.create_task(worker.run())
    await until(lambda: hanging.begun)
    worker.stop()
    await asyncio.wait_for(running, 10)  # no thread is waited for
    after = await read(app, job)
    assert (after.status, after.attempts, worker.given_back) == (Status.PENDING, 0, 1)
    assert hanging.left == [("CancelledError", False)]
    hanging.go.set()
    if kind == "plain":
        await until(lambda: hanging.thread_lost)
        assert hanging.thread_lost == [True]


async def test_a_thread_that_is_waited_for_after_its_timeout_does_not_keep_a_worker_that_stops(app: App) -> None:
    hanging = Hanging(app)
    job = await app.enqueue("plain", max_attempts=1, timeout=0.05)
    worker = Worker(app, grace=0)
    running = asyncio.create_task(worker.run())
    assert (await app.wait(job.id, 10)).status is Status.FAILED
    worker.stop()
    await asyncio.wait_for(running, 10)
    hanging.go.set()
    assert ((await read(app, job)).attempts, worker.given_back) == (1, 0)


@KINDS
async def test_one_may_have_a_timeout_of_its_own(app: App, kind: str) -> None:
    @app.middleware
    async def impatient(claim: Claim, call: Call) -> Any:
        try:
            async with asyncio.timeout(0.1):
                return await call()
        except TimeoutError:
            return "enough"

    hanging = Hanging(app)
    job = await app.enqueue(kind)
    async with working(app):
        assert (await app.wait(job.id, 10)).result == "enough"
        hanging.go.set()
    assert hanging.left == [("CancelledError", False)]
    assert hanging.thread_lost == ([True] if kind == "plain" else [])


async def test_drain_runs_it(app: App) -> None:
    request: ContextVar[str] = ContextVar("request", default="none")
    seen: list[str] = []

    @app.middleware
    async def twice(claim: Claim, call: Call) -> Any:
        seen.append(request.get())
        request.set(claim.task)
        result = await call()
        return [result, request.get()]

    both(app, lambda a: f"{a} {request.get()}")
    for kind in ("async", "plain"):
        await app.enqueue(kind, {"a": 1})
    await app.enqueue("plain", {"b": 1})
    jobs = await drain(app)
    assert [job.result for job in jobs] == [["1 async", "async"], ["1 plain", "plain"], None]
    assert jobs[2].error is not None
    assert jobs[2].error.code == "invalid_params"
    assert seen == ["none"] * 3
    with pytest.raises(dibs.WrongState):
        dibs.current()


async def test_a_drain_that_is_cancelled_ends(app: App) -> None:
    hanging = Hanging(app)
    job = await app.enqueue("async")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(drain(app), 0.2)
    await until_counts(app, lambda counts: counts.pending == 1)
    assert ((await read(app, job)).attempts, hanging.begun) == (0, 1)


async def test_a_handlers_jobs_go_on_with_its_trace(app: App) -> None:
    span: ContextVar[str] = ContextVar("span", default="none")

    @app.trace_context
    def inject() -> dict[str, str]:
        return {"span": span.get()}

    @app.middleware
    async def follow(claim: Claim, call: Call) -> Any:
        span.set(f"{claim.job.trace['span']}/{claim.task}")
        return await call()

    @app.task
    async def first() -> None:
        await second.enqueue()

    @app.task
    def second() -> None:
        third.sync.enqueue()  # from a thread

    @app.task
    async def third() -> str:
        return span.get()

    span.set("web")
    await first.enqueue()
    await work(app)
    [job] = (await app.find(task="third")).items
    assert (job.trace, job.result) == ({"span": "web/first/second"}, "web/first/second/third")


async def test_a_callable_object_and_a_partial_may_be_middleware(app: App) -> None:
    class Adds:
        async def __call__(self, claim: Claim, call: Call) -> Any:
            return await call() + 1

    async def times(number: int, claim: Claim, call: Call) -> Any:
        return await call() * number

    app.middleware(Adds())
    app.middleware(partial(times, 10))
    both(app, lambda a: a)
    job = await app.enqueue("async", {"a": 4})
    await work(app)
    assert (await read(app, job)).result == 41


def plain(claim: Claim, call: Call) -> None: ...


async def generates(claim: Claim, call: Call) -> Any:
    yield await call()


async def takes_one(claim: Claim) -> None: ...


async def takes_three(claim: Claim, call: Call, more: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (plain, "plain is not async"),
        (generates, "generates is not async"),
        (takes_one, r"takes_one\(claim, call\)"),
        (takes_three, "two arguments"),
        (None, "without parentheses"),
    ],
)
def test_what_cannot_be_middleware_is_refused_at_once(function: Any, says: str) -> None:
    app = App("memory://")
    with pytest.raises(dibs.InvalidRequest, match=says) as error:
        app.middleware(function)
    assert [problem.field for problem in error.value.problems] == ["middleware"]
    assert app.layers == []


async def test_around_a_handler_in_a_process(tmp_path: Path) -> None:
    """What it did comes back to the middleware, and so does what it raised; a timeout ends it, and is told, too."""
    seen: dict[str, object] = {}
    async with App(f"sqlite:///{tmp_path / 'jobs.db'}") as app:
        task = app.task("end", process=True, max_attempts=1)(process_work.end)
        sleep = app.task("sleep", process=True, max_attempts=1, timeout=1)(process_work.sleep)

        @app.middleware
        async def watch(claim: Claim, call: Call) -> Any:
            try:
                seen[claim.id] = await call()
            except Exception as error:
                seen[claim.id] = str(error)
                raise
            return {"within": seen[claim.id]}

        jobs = [
            await task.enqueue("dict"),
            await task.enqueue("error"),
            await sleep.enqueue(str(tmp_path / "pids"), 60),
        ]
        await work(app, handler_processes=2)
        done, failed, late = [await read(app, job) for job in jobs]
    assert done.result == {"within": seen[done.id]}
    assert failed.error is not None
    assert (failed.status, failed.error.message) == (Status.FAILED, seen[failed.id])
    assert failed.error.kind == type(process_work._BAD["error"]()).__name__
    assert late.error is not None
    assert (late.status, late.error.kind) == (Status.FAILED, "timeout")
    assert late.id in seen
