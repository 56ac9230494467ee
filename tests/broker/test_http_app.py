"""``dibs.App`` over a server: keys, loops, threads, forks, and all that is not the broker's alone."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import dibs
from dibs import App, FakeClock, Forbidden, NotSupported, RateLimited, Status, StoreUnavailable, Unauthorized
from dibs.server import keys
from tests.broker.serving import Process, ServedClock
from tests.server.process import Serving

MAIN = "from dibs.cli import main; main()"


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    with Serving(tmp_path) as serving:
        yield serving


@pytest.fixture
def key(serving: Serving, tmp_path: Path) -> str:
    return (tmp_path / "dibs-admin.key").read_text().strip()


@pytest.fixture
async def app(serving: Serving, key: str) -> AsyncIterator[App]:
    async with App(serving.url, api_key=key) as app:
        yield app


async def make(serving: Serving, *scopes: str, rate: int | None = None, queues: list[str] | None = None) -> str:
    async with App(serving.store) as store:
        runtime = store.runtime
        made = await keys.create(runtime.broker(), runtime.clock, name="made", scopes=scopes, rate=rate, queues=queues)
        return made.text


# Keys


async def test_the_key_says_what_is_allowed(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DIBS_API_KEY", raising=False)
    produce = await make(serving, "produce")
    async with App(serving.url) as app:
        with pytest.raises(Unauthorized, match="no API key was given"):
            await app.enqueue("t")
    async with App(serving.url, api_key=produce) as app:
        job = await app.enqueue("t")
        with pytest.raises(Forbidden, match="work"):
            await app.claim("w")
        await app.cancel(job.id, by="olga")
    async with App(serving.store) as store:
        assert (await store.log(job.id))[-1].actor == "made: olga"


async def test_the_key_is_read_from_the_environment(
    serving: Serving, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIBS_API_KEY", key)
    monkeypatch.setenv("DIBS_STORE", serving.url)
    async with App() as app:
        assert (await app.enqueue("t")).status is Status.PENDING


async def test_a_rate_that_is_used_up(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """The window is a minute: too long for a test to wait for, so its patience is shorter."""
    monkeypatch.setattr("dibs.broker.http.remote.PATIENCE", 1.0)
    async with App(serving.url, api_key=await make(serving, "produce", rate=3)) as app:
        for _ in range(3):
            await app.enqueue("t")
        with pytest.raises(RateLimited, match="3 requests a minute"):
            await app.enqueue("t")


async def test_a_rate_is_waited_for(process: Process, tmp_path: Path) -> None:
    """The client comes back once the minute is over, and not before."""
    url = f"sqlite:///{tmp_path / 'other.db'}"
    process.tell("begin", url=url)
    clock = ServedClock(process)
    async with App(url, clock=FakeClock(seed=1)) as store:
        broker = store.runtime.broker()
        made = await keys.create(broker, store.runtime.clock, name="slow", scopes=["produce"], rate=2)
        async with App(process.url, api_key=made.text, clock=clock) as app:
            await app.enqueue("t")
            await app.enqueue("t")
            third = asyncio.create_task(app.enqueue("t"))
            while not clock._timers:  # noqa: ASYNC110 - it tells no one that someone sleeps
                await asyncio.sleep(0.01)
            clock.advance(59)
            await asyncio.sleep(0.1)
            assert not third.done()
            assert (await store.counts()).pending == 2
            clock.advance(10)
            await asyncio.wait_for(third, 10)
        assert (await store.counts()).pending == 3
    process.tell("end")


async def test_a_key_for_some_queues(serving: Serving) -> None:
    async with App(serving.url, api_key=await make(serving, "produce", "work", "read", queues=["mail"])) as app:
        await app.enqueue("t", queue="mail")
        with pytest.raises(Forbidden):
            await app.enqueue("t", queue="other")
        claim = await app.claim("w")
        assert claim is not None
        await claim.complete()
        assert await app.once("k", lambda: 5) == 5


async def test_the_secret_is_in_no_log_and_no_error(
    serving: Serving, key: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = key.split("_", 2)[2]
    said = []
    wrong = key[:-3] + "xyz"
    async with App(serving.url, api_key=key) as app, App(serving.url, api_key=wrong) as other:
        await app.enqueue("t")
        said += [repr(app), repr(app.runtime), repr(app.runtime.broker())]
        with pytest.raises(Unauthorized) as unauthorized:
            await other.enqueue("t")
        serving.end()
        with pytest.raises(StoreUnavailable) as unavailable:
            await app.claim("w")
        said += [repr(unauthorized.value), str(unauthorized.value), str(unavailable.value), repr(unavailable.value)]
    said += [caplog.text, *serving.said]
    assert not [text for text in said if secret in text or wrong.split("_", 2)[2] in text]


# What is not the broker's alone


async def test_a_job_from_beginning_to_end(app: App) -> None:
    seen = []

    async def watch(id: str) -> None:
        seen.extend([job.status.value async for job in app.watch(id)])

    job = await app.enqueue("t", {"a": 1}, tags=["red"], batch="b", retention=dibs.Retention(completed=60))
    watching = asyncio.create_task(watch(job.id))
    claim = await app.claim("w", lease=3)
    assert claim is not None
    async with claim:
        assert dibs.current().params == {"a": 1}
        elsewhere = app.claimed(claim.id, fence=claim.fence, lease_token=claim.lease_token)
        assert (await elsewhere.load()).claim_lease_us == 3_000_000
        await asyncio.sleep(0.2)
    ended = await app.wait(job.id, timeout=10)
    await watching

    assert (ended.status, ended.keep.completed, ended.tags, ended.batch_id) == ("completed", 60_000_000, ("red",), "b")
    assert seen[-1] == "completed"
    assert (await app.verify()).jobs == 1


async def test_once(app: App) -> None:
    calls = iter(["kept", "not reached"])
    for _ in range(2):
        assert await app.once("k", lambda: next(calls)) == "kept"


async def test_what_needs_the_store_itself(app: App) -> None:
    with pytest.raises(NotSupported, match="transaction"):
        await app.enqueue("t", connection=object())
    with pytest.raises(NotSupported, match="migrated"):
        await app.migrate()


# Loops, threads, forks


def test_in_any_loop_and_thread(serving: Serving, key: str) -> None:
    app = App(serving.url, api_key=key)

    async def use() -> None:
        await asyncio.gather(*(app.enqueue("t") for _ in range(5)))

    asyncio.run(use())
    asyncio.run(use())
    threads = [threading.Thread(target=lambda: asyncio.run(use())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with app.sync as queue:
        assert queue.counts().pending == 25
        claim = queue.claim("w")
        assert claim is not None
        with claim:
            pass
    assert app.sync.counts().completed == 1  # it opens again
    app.sync.close()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_a_fork(serving: Serving, key: str) -> None:
    app = App(serving.url, api_key=key)
    app.sync.enqueue("t", id="parent")
    child = os.fork()
    if child == 0:
        code = 1
        with suppress(BaseException):
            app.sync.enqueue("t", id="child")
            code = 0
        os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert {job.id for job in app.sync.find()} == {"parent", "child"}
    app.sync.close()


# Commands


def test_commands_over_a_server(serving: Serving, key: str, tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(
        "import dibs\napp = dibs.App()\n\n@app.task\ndef double(n: int) -> int:\n    return 2 * n\n"
    )
    environment = {**os.environ, "DIBS_STORE": serving.url, "DIBS_API_KEY": key, "PYTHONPATH": str(tmp_path)}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", *command], check=False, cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    assert run("import jobs; jobs.double.sync.enqueue(21)").returncode == 0
    worked = run(MAIN, "worker", "jobs:app", "--until-idle")
    assert worked.returncode == 0, worked.stderr
    verified = run(MAIN, "verify")
    assert (verified.returncode, "1 jobs" in verified.stdout or "1 job" in verified.stdout) == (0, True), verified
    migrated = run(MAIN, "migrate")
    assert (migrated.returncode, "where the store is" in migrated.stderr) == (2, True)
    examined = run(MAIN, "doctor")
    assert (examined.returncode, "needs a store" in examined.stderr) == (2, True)
    assert key not in worked.stderr + worked.stdout + verified.stdout + migrated.stderr
    with App(serving.store).sync as queue:
        [job] = queue.find().items
        assert job.result == 42
