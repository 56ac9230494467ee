"""A settle that was asked for goes through, whatever becomes of its caller; it is never overtaken by a release."""
# ruff: noqa: ASYNC110, PT012 - a job is looked at until it changes; what a block raises is the subject

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import apsw
import pytest

import dibs
from dibs import App, Claim, LeaseLost, Status
from dibs.broker.http import HttpBroker
from dibs.portal import Kind, Portal

VERBS: dict[str, tuple[Callable[[Claim], Coroutine[Any, Any, None]], str, Status]] = {
    "complete": (lambda claim: claim.complete("done"), "completed", Status.COMPLETED),
    "fail": (lambda claim: claim.fail("no", retryable=False), "failed", Status.FAILED),
    "release": (lambda claim: claim.release(delay=60), "released", Status.PENDING),
}
each_verb = pytest.mark.parametrize("verb", VERBS)


class Gate:
    """Holds back what the running loop's broker writes; the portal's goes through."""

    def __init__(self, app: App) -> None:
        broker: Any = app.runtime.broker()
        self._batcher = broker._settles if isinstance(broker, HttpBroker) else broker._writes
        self._send: Callable[[list[Any]], Awaitable[Any]] = self._batcher._send
        self._batcher._send = self._wait
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

    async def _wait(self, items: list[Any]) -> Any:
        self.reached.set()
        await self.open.wait()
        return await self._send(items)


async def start(app: App, **options: Any) -> Claim:
    await app.enqueue("t", **options)
    claim = await app.claim()
    assert claim is not None
    return claim


async def settle_inside(claim: Claim, verb: str = "complete") -> None:
    async with claim:
        await VERBS[verb][0](claim)


async def cancelled_in_the_middle(task: "asyncio.Task[None]", gate: Gate, times: int = 1) -> None:
    await gate.reached.wait()
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0.02)  # long enough for a release to overtake


async def job_of(app: App, claim: Claim) -> dibs.Job:
    while (job := await app.get(claim.id)) and job.status is Status.CLAIMED:
        await asyncio.sleep(0)
    assert job is not None
    return job


@each_verb
@pytest.mark.parametrize("times", [1, 3])
async def test_cancelled_while_it_settles(live: App, caplog: pytest.LogCaptureFixture, verb: str, times: int) -> None:
    claim = await start(live)
    gate = Gate(live)
    task = asyncio.create_task(settle_inside(claim, verb))
    await cancelled_in_the_middle(task, gate, times)
    gate.open.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    job = await job_of(live, claim)
    _, event, status = VERBS[verb]
    assert [event.event for event in await live.log(claim.id)] == ["enqueued", "claimed", event]
    assert job.status is status
    assert job.result == ("done" if verb == "complete" else None)
    while not claim.settled:
        await asyncio.sleep(0)
    assert not claim.lost
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_cancelled_in_the_turn_in_which_it_settles(live: App, caplog: pytest.LogCaptureFixture) -> None:
    for turns in range(1, 12):
        claim = await start(live)
        task = asyncio.create_task(settle_inside(claim))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        job = await live.get(claim.id)
        assert job is not None
        assert not claim.lost
        if claim.settled and job.status is Status.COMPLETED:
            assert job.result == "done"
        else:
            assert job.status is Status.PENDING
            await live.cancel(claim.id)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_cancelled_while_another_process_writes(tmp_path: Path) -> None:
    async with App(f"sqlite:///{tmp_path / 'jobs.db'}") as app:
        first, second = await start(app), await start(app)
        other = apsw.Connection(str(tmp_path / "jobs.db"))
        other.execute("BEGIN IMMEDIATE")
        tasks = [asyncio.create_task(settle_inside(first))]
        await asyncio.sleep(0.05)
        tasks.append(asyncio.create_task(settle_inside(second)))
        await asyncio.sleep(0.05)
        tasks[1].cancel()
        await asyncio.sleep(0.1)
        other.execute("COMMIT")
        other.close()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert [(await job_of(app, claim)).result for claim in (first, second)] == ["done", "done"]


def test_a_loop_that_ends_while_it_settles(url: str, caplog: pytest.LogCaptureFixture) -> None:
    app = App(url)
    claims: list[Claim] = []
    tasks: list[asyncio.Task[None]] = []

    async def main() -> None:
        claims.append(await start(app))
        gate = Gate(app)
        tasks.append(asyncio.create_task(settle_inside(claims[0])))
        await gate.reached.wait()
        asyncio.get_running_loop().call_later(0.1, gate.open.set)  # the loop waits for what is on its way

    asyncio.run(main())
    job = app.sync.get(claims[0].id)
    assert job is not None
    assert (job.status, job.result) == (Status.COMPLETED, "done")
    assert (claims[0].settled, claims[0].lost) == (True, False)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
    app.sync.close()


async def test_thrown_away_while_it_settles(live: App) -> None:
    claim = await start(live)
    gate = Gate(live)
    coroutine = settle_inside(claim)
    coroutine.send(None)
    coroutine.close()
    await gate.reached.wait()
    job = await job_of(live, claim)
    assert (job.status, job.result) == (Status.COMPLETED, "done")
    gate.open.set()
    while not claim.settled:
        await asyncio.sleep(0)
    assert not claim.lost


async def test_a_timeout_inside_the_block_does_not_end_what_was_asked_for(live: App) -> None:
    claim = await start(live)
    gate = Gate(live)
    with pytest.raises(TimeoutError):
        async with claim:
            asyncio.get_running_loop().call_later(0.1, gate.open.set)
            async with asyncio.timeout(0.02):
                await claim.complete("done")
    job = await job_of(live, claim)
    assert (job.status, job.result) == (Status.COMPLETED, "done")
    assert (claim.settled, claim.lost) == (True, False)


async def test_a_timeout_that_is_caught_inside_the_block(live: App) -> None:
    claim = await start(live)
    gate = Gate(live)
    async with claim:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.02):
                await claim.complete("done")
        gate.open.set()
    job = await job_of(live, claim)
    assert (job.status, job.result) == (Status.COMPLETED, "done")
    assert (claim.settled, claim.lost) == (True, False)


async def test_another_settle_after_a_timeout_is_told_of_the_first(live: App) -> None:
    claim = await start(live)
    gate = Gate(live)
    async with claim:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.02):
                await claim.complete("done")
        gate.open.set()
        with pytest.raises(LeaseLost, match="completed already"):
            await claim.fail("too slow")
    assert not claim.lost


async def test_a_settle_that_fails_after_its_caller_was_cancelled_is_logged(
    live: App, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = await start(live)
    gate = Gate(live)

    async def away(*_: Any, **__: Any) -> None:
        raise dibs.StoreUnavailable("away")

    async def break_the_portals() -> None:
        monkeypatch.setattr(live.runtime.broker(), "settle", away)

    await live.runtime.see_through(break_the_portals())
    task = asyncio.create_task(settle_inside(claim))
    await cancelled_in_the_middle(task, gate)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (claim.settled, claim.lost) == (False, False)
    assert [record.getMessage() for record in caplog.records if "away" in record.getMessage()]
    gate.open.set()
    assert (await job_of(live, claim)).result == "done", "it was on its way all the same"


async def test_a_settle_refused_after_its_caller_was_cancelled(live: App) -> None:
    claim = await start(live)
    gate = Gate(live)
    task = asyncio.create_task(settle_inside(claim))
    await gate.reached.wait()
    await asyncio.to_thread(live.sync.cancel, claim.id)
    await cancelled_in_the_middle(task, gate)
    gate.open.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await job_of(live, claim)).status is Status.CANCELLED
    assert not claim.settled


async def test_close_comes_after_a_settle_whose_caller_has_gone(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path / 'jobs.db'}")
    claim = await start(app)
    gate = Gate(app)
    task = asyncio.create_task(claim.complete("done"))
    await cancelled_in_the_middle(task, gate)
    asyncio.get_running_loop().call_later(0.05, gate.open.set)
    await app.close()
    assert claim.settled
    job = await app.get(claim.id)
    assert job is not None
    assert job.result == "done"
    await app.close()


class Interrupted:
    """Makes the next sync call end by Ctrl-C once it is under way."""

    def __init__(self, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
        async def gate() -> None:
            self.gate = Gate(app)

        app.runtime.run(gate())
        submit = Portal.submit

        def interrupted(portal: Portal, *args: Any) -> Any:
            call = submit(portal, *args)
            if any(kind is Kind.ASKED for kind in args[1:]):
                monkeypatch.undo()
                result = call.result

                def interrupt(timeout: float | None = None) -> Any:
                    while not self.gate.reached.is_set():
                        time.sleep(0.001)
                    call.result = result  # type: ignore[method-assign]
                    portal.loop.call_soon_threadsafe(portal.loop.call_later, 0.05, self.gate.open.set)
                    raise KeyboardInterrupt

                call.result = interrupt  # type: ignore[method-assign]
            return call

        monkeypatch.setattr(Portal, "submit", interrupted)


def test_ctrl_c_while_it_settles(url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    with App(url).sync as queue:
        queue.enqueue("t")
        claim = queue.claim()
        assert claim is not None
        with pytest.raises(KeyboardInterrupt), claim:
            Interrupted(queue._async, monkeypatch)
            claim.complete("done")
        assert (claim.settled, claim.lost) == (True, False)
        assert [event.event for event in queue.log(claim.id)] == ["enqueued", "claimed", "completed"]
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_ctrl_c_in_a_sync_call_inside_an_async_block(live: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Race: what is under way is on the portal's loop, and the block is left on another."""
    claim = await start(live)
    with pytest.raises(KeyboardInterrupt):
        async with claim:
            Interrupted(live, monkeypatch)
            claim.sync.complete("done")
    assert (await job_of(live, claim)).result == "done"
    assert not claim.lost


# Telling why it is refused


@pytest.mark.parametrize("verb", ["complete", "fail", "release"])
async def test_settled_otherwise_before_says_so(app: App, verb: str) -> None:
    claim = await start(app)
    await VERBS[verb][0](claim)
    calls: dict[str, Callable[[], Awaitable[None]]] = {
        "complete": claim.complete,
        "release": claim.release,
        "extend": claim.extend,
    }
    for name in sorted({*calls} - {verb}):
        with pytest.raises(LeaseLost, match=f"{VERBS[verb][1]} already") as caught:
            await calls[name]()
        assert "engthen" not in str(caught.value)
    assert not claim.lost
