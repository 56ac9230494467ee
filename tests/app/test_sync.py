"""The sync twin: the same calls, blocking, through one thread that also keeps its claims."""

import asyncio
import inspect
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dibs
from dibs import App, Claim, FakeClock, LeaseLost, NewJob, Status, SyncApp, SyncClaim, SyncTask, Task
from dibs.portal import Kind, Portal

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def queue(url: str):
    with App(url).sync as queue:
        yield queue


def claimed(queue: SyncApp, **wishes: Any) -> SyncClaim:
    claim = queue.claim(**wishes)
    assert claim is not None
    return claim


def test_sync_calls_do_what_the_async_ones_do(queue: SyncApp) -> None:
    job = queue.enqueue("t", {"a": 1}, priority=3)
    claim = claimed(queue, worker_id="w")
    assert (claim.id, claim.task, claim.params, claim.attempt, claim.fence) == (job.id, "t", {"a": 1}, 1, 1)
    claim.extend()
    claim.progress(0.5)
    claim.complete("done")
    assert claim.settled
    assert queue.wait(job.id).result == "done"
    assert [job.status for job in queue.watch(job.id)] == [Status.COMPLETED]
    queue.enqueue_many([NewJob("t", number, queue="q") for number in range(5)])
    claims = queue.claim_many(limit=2, queues=["q"])
    assert [claim.params for claim in claims] == [0, 1]
    claims[0].fail("no", retryable=False)
    claims[1].release(delay=60)
    assert [job.params for job in queue.find(queue="q", limit=2)] == [4, 3, 2, 1, 0]
    page = queue.find(queue="q", limit=2)
    assert ([job.params for job in page.items], page.next_cursor is not None) == ([4, 3], True)
    assert queue.counts("q").failed == 1
    assert queue.redrive(claims[0].id).changed == 1
    assert queue.explain(claims[1].id).code == "not_due"
    assert queue.get("nothing") is None
    queue.pause("q", by="ada")
    assert [(info.queue, info.paused) for info in queue.queues()] == [("default", False), ("q", True)]
    queue.resume("q")
    assert queue.workers() == []
    assert [event.event for event in queue.log(job.id)] == ["enqueued", "claimed", "completed"]
    assert queue.purge(where=dibs.Filter(status="completed"), dry_run=True).matched == 1
    assert isinstance(queue.migrate(), list)
    taken = queue.claimed(claim.id, fence=claim.fence, lease_token=claim.lease_token)
    taken.complete()
    assert queue.verify().ok


def test_sync_errors_are_those_of_the_async_calls(queue: SyncApp) -> None:
    with pytest.raises(dibs.InvalidJob, match="task"):
        queue.enqueue("../")
    with pytest.raises(dibs.NotFound):
        queue.explain("nothing")
    with pytest.raises(dibs.InvalidRequest, match="fence"):
        queue.claimed("a", fence=0, lease_token="x")


def test_sync_tasks(queue: SyncApp) -> None:
    app = App("memory://")

    @app.task(queue="mail")
    def send(to: str) -> None: ...

    assert send.sync.enqueue("a").queue == "mail"
    assert send.sync.options(priority=4).enqueue(to="b").priority == 4
    assert send.options(priority=4).sync.enqueue("c").params == {"to": "c"}
    assert send.sync.job("d").params == {"to": "d"}
    app.sync.close()


def test_sync_claims_loop_goes_on(queue: SyncApp) -> None:
    queue.enqueue_many([NewJob("t", number, max_attempts=1) for number in range(3)])
    seen = []
    for claim in queue.claims("w"):
        with claim:
            seen.append(claim.params)
            if claim.params == 1:
                raise ValueError("no")
        if claim.params == 2:
            break
    assert seen == [0, 1, 2]
    assert (queue.counts().completed, queue.counts().failed) == (2, 1)


def test_sync_claim_that_is_lost(queue: SyncApp) -> None:
    queue.enqueue("t")
    claim = claimed(queue)
    with pytest.raises(LeaseLost), claim:
        queue.cancel(claim.id)
    assert claim.lost


def test_sync_claim_extends_itself(url: str, clock: FakeClock) -> None:
    with App(url, clock=clock).sync as queue:
        queue.enqueue("t")
        claim = claimed(queue, lease=30)
        with claim:
            for _ in range(6):
                before = queue.get(claim.id)
                clock.advance(10)
                while queue.get(claim.id) == before:
                    pass
        assert claim.settled


def test_sync_once_runs_in_the_callers_thread(queue: SyncApp) -> None:
    async def later() -> int:
        return 3

    assert queue.once("a", threading.get_ident) == threading.get_ident()
    assert queue.once("a", lambda: 1) == threading.get_ident()
    assert queue.once("b", later) == 3


async def test_sync_calls_inside_a_running_loop_block_it(live: App) -> None:
    job = live.sync.enqueue("t")
    assert (await live.get(job.id)) == live.sync.get(job.id)
    claim = await live.claim()
    assert claim is not None
    async with claim:
        claim.sync.progress(0.5)
        assert dibs.current().sync.params is None


async def test_sync_calls_on_the_portals_own_loop_are_refused(live: App) -> None:
    async def inside() -> None:
        live.sync.counts()

    with pytest.raises(dibs.WrongState, match="event loop"):
        live.runtime.run(inside())


def test_sync_calls_from_many_threads(queue: SyncApp) -> None:
    def produce(number: int) -> None:
        for _ in range(20):
            queue.enqueue("t", number)

    threads = [threading.Thread(target=produce, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert queue.counts().pending == 160


def test_close_ends_a_call_that_waits(url: str) -> None:
    queue = App(url).sync
    queue.counts()
    caught: list[Exception] = []

    def wait() -> None:
        try:
            queue.claim(wait=60)
        except Exception as error:  # noqa: BLE001 - to see which it is
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while len(queue._runtime.portal()._calls) < 2:  # the claim, and the maintenance that comes with it
        pass
    queue.close()
    thread.join()
    assert isinstance(caught[0], dibs.WrongState)
    assert "closed" in str(caught[0])


def test_an_app_that_is_dropped_takes_its_thread_with_it() -> None:
    app = App("memory://")
    app.sync.enqueue("t")
    claim = claimed(app.sync)  # maintenance runs now
    claim.complete()
    portal = app.runtime.portal()
    del app, claim
    import gc

    gc.collect()
    portal.join(5)
    assert not portal.alive


def test_ctrl_c_while_waiting_for_a_job_gives_up_cleanly(tmp_path: Path) -> None:
    script = f"""
import dibs, time
queue = dibs.App("sqlite:///{tmp_path / "jobs.db"}").sync
queue.counts()
try:
    print("ready", flush=True)
    for claim in queue.claims():
        with claim:
            print("claimed", flush=True)
            time.sleep(60)
except KeyboardInterrupt:
    print("interrupted", [job.status.value for job in queue.find()], flush=True)
"""
    for jobs in (0, 1):
        command = [sys.executable, "-W", "error", "-c", script]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout is not None
        if jobs:
            with App(f"sqlite:///{tmp_path / 'jobs.db'}").sync as queue:
                queue.enqueue("t")
        assert process.stdout.readline() == "ready\n"
        if jobs:
            assert process.stdout.readline() == "claimed\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        assert (out, err, process.returncode) == (f"interrupted {['pending'] * jobs}\n", "", 0)


def test_an_interrupted_claim_is_given_back(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Race: Ctrl-C as the answer comes. The job was claimed, and the caller never sees the claim."""
    with App(url).sync as queue:
        job = queue.enqueue("t")
        submit = Portal.submit

        def interrupted(portal: Portal, *args: Any) -> Any:
            call = submit(portal, *args)
            result = call.result

            def interrupt(timeout: float | None = None) -> Any:
                result()
                monkeypatch.undo()
                call.result = result  # type: ignore[method-assign]
                raise KeyboardInterrupt

            if any(kind.name == "ASKED" for kind in args[1:]):
                call.result = interrupt  # type: ignore[method-assign]
            return call

        monkeypatch.setattr(Portal, "submit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            queue.claim()
        again = claimed(queue, wait=10)
        assert (again.id, again.fence, again.attempt) == (job.id, 2, 1)


def test_an_interrupted_enter_gives_the_job_back(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Race: Ctrl-C after the claim is kept and before the block is entered, so that the block is never left."""

    def interrupt(claim: Claim) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    with App(url).sync as queue:
        queue.enqueue("t")
        claim = claimed(queue)
        monkeypatch.setattr("dibs.twin.set_current", interrupt)
        with pytest.raises(KeyboardInterrupt), claim:
            pytest.fail("entered")
        assert claimed(queue, wait=10).fence == 2


# The generated file


def test_the_twin_is_as_it_would_be_generated() -> None:
    run = subprocess.run(
        [sys.executable, ROOT / "tools" / "sync_twin.py", "--check"], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (0, "")


@pytest.mark.parametrize(
    ("original", "twin", "left_out"),
    [
        (
            App,
            SyncApp,
            {
                *("sync", "task", "tasks", "schedule", "plans", "include"),
                *("middleware", "layers", "trace_context", "traced", "instrument"),
            },
        ),
        (
            Claim,
            SyncClaim,
            {
                "sync",
                "lost_event",
                "ref",
                "untouched",
                "keep",
                "to_be_kept",
                "let_go",
                "conclude",
                "disown",
                "wish",
                "leave",
            },
        ),
        (Task, SyncTask, {"sync", "arguments", "keeps_time"}),
    ],
)
def test_the_twin_has_every_call(original: type, twin: type, left_out: set[str]) -> None:
    names = {name for name in vars(original) if not name.startswith("_")} - left_out
    assert names <= set(dir(twin))
    for name in names:
        ours = getattr(twin, name)
        assert not inspect.iscoroutinefunction(ours)
        if callable(ours):
            theirs = inspect.signature(getattr(original, name))
            assert list(inspect.signature(ours).parameters) == list(theirs.parameters)
            assert ours.__doc__


async def test_portal_calls_can_be_awaited_from_another_loop() -> None:
    portal = Portal(dibs.Clock())

    async def where() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def fail() -> None:
        raise SystemExit(3)

    assert await portal.wait(portal.submit(where())) is portal.loop
    with pytest.raises(SystemExit):
        await portal.wait(portal.submit(fail()))
    assert await portal.wait(portal.submit(where())) is portal.loop, "it goes on"
    portal.stop()
    portal.stop()
    await portal.ended()
    with pytest.raises(dibs.WrongState, match="closed"):
        portal.run(where())


class Late(dibs.Clock):
    """Starts threads that begin only when they are told to."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def spawn(self, name: str, target: Callable[[], None]) -> threading.Thread:
        def begin() -> None:
            self.go.wait(10)
            target()

        return super().spawn(name, begin)


def test_a_portal_that_is_stopped_before_it_runs_ends_cleanly() -> None:
    clock = Late()
    portal = Portal(clock)
    call = portal.submit(asyncio.sleep(3600), Kind.BACKGROUND)
    portal.stop()
    clock.go.set()
    portal.join(10)

    assert portal.loop.is_closed()
    assert call.cancelled()
