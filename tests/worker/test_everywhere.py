"""Real worker processes on every store and over HTTP: killed, stopped, blocked, too slow, overtaken."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from dibs import App, Job, Status
from tests.server.process import Serving
from tests.servers.databases import empty_cluster, empty_mysql, empty_postgres, empty_redis
from tests.worker.conftest import read, until

HERE = Path(__file__).parent
SERVERS = {"postgresql": empty_postgres, "mysql": empty_mysql, "redis": empty_redis, "cluster": empty_cluster}
LEASE = 2.5  # so long that a busy machine lets everyone beat in time
LONG = 3 * LEASE
PATIENCE = 30.0


@pytest.fixture(params=["sqlite", "served", *SERVERS])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "served":
        with Serving(tmp_path, "--no-auth") as serving:
            yield serving.url
    else:
        yield SERVERS[request.param]() if request.param in SERVERS else f"sqlite:///{tmp_path / 'jobs.db'}"


class Crew:
    """Worker processes on one store, and what their handlers have said."""

    def __init__(self, url: str, folder: Path) -> None:
        self.runs = folder / "runs"
        self._environment = {**os.environ, "DIBS_STORE": url, "TEST_RUNS": str(self.runs)}
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", "from dibs.cli import main; main()", "worker", "everywhere_app:app"]
        options = ("--worker-id", name, "--lease", f"{LEASE:g}", "--handler-processes", "1", *options)
        with Path(f"{self.runs}-{name}").open("a") as said:
            process = subprocess.Popen([*command, *options], cwd=HERE, env=self._environment, stdout=said, stderr=said)
        self._processes.append(process)
        return process

    async def ended(self, process: subprocess.Popen[bytes]) -> int:
        return await asyncio.to_thread(process.wait, PATIENCE)

    def lines(self, what: str, job: Job) -> list[int]:
        """Say under which fences a job began, ended, or was lost."""
        if not self.runs.exists():
            return []
        words = [line.split() for line in self.runs.read_text().rpartition("\n")[0].splitlines()]
        return [int(fence) for kind, id, fence, _ in words if (kind, id) == (what, job.id)]

    async def said(self, what: str, job: Job, times: int = 1) -> None:
        await until(lambda: len(self.lines(what, job)) >= times, PATIENCE)

    def close(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()


@pytest.fixture
def crew(url: str, tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(url, tmp_path)
    yield crew
    crew.close()


@pytest.fixture
async def app(url: str) -> AsyncIterator[App]:
    async with App(url, reap_every=0.2) as app:
        yield app


async def log(app: App, job: Job) -> list[str]:
    return [str(event.event) for event in await app.log(job.id)]


async def assert_taken_over(crew: Crew, app: App, job: Job) -> None:
    """Who had it first did not end it. A claim that a server made for one who does not read may be between the two."""
    after, events = await read(app, job), await log(app, job)
    taken = after.fence - 1
    assert taken >= 1
    assert events == ["enqueued", *["claimed", "expired"] * taken, "claimed", "completed"]
    assert (after.result, after.attempts, crew.lines("ended", job)) == (after.fence, after.fence, [after.fence])
    assert (await app.verify()).ok


async def test_one_that_crashes_is_taken_over(crew: Crew, app: App) -> None:
    job = await app.enqueue("wait", {"seconds": 0, "first": 60}, max_attempts=10)
    first = crew.start("first")
    await crew.said("began", job)
    first.kill()
    crew.start("second")
    after = await app.wait(job.id, PATIENCE)

    await assert_taken_over(crew, app, job)
    assert (after.status, after.worker_id) == (Status.COMPLETED, "second")


async def test_sigterm_lets_what_runs_finish_and_gives_back_what_does_not(crew: Crew, app: App) -> None:
    quick, slow = await app.enqueue("wait", {"seconds": 1}), await app.enqueue("wait", {"seconds": 60})
    process = crew.start("first", "--grace", "3")
    await crew.said("began", quick)
    await crew.said("began", slow)
    process.send_signal(signal.SIGTERM)
    assert await crew.ended(process) == 0

    assert (await read(app, quick)).result == 1
    given_back = await read(app, slow)
    assert (given_back.status, given_back.attempts) == (Status.PENDING, 0)
    assert await log(app, slow) == ["enqueued", "claimed", "released"]
    assert [worker.status for worker in await app.workers()] == ["inactive"]


async def stop_between_writes(process: subprocess.Popen[bytes], app: App) -> None:
    """Stop a process that holds no lock of a file: with one, all others would wait for it to go on."""
    while True:
        process.send_signal(signal.SIGSTOP)
        write = asyncio.ensure_future(app.pause("unused"))
        done, _ = await asyncio.wait([write], timeout=2)
        if not done:
            process.send_signal(signal.SIGCONT)
        await write
        if done:
            return


async def test_one_that_was_stopped_is_taken_over_and_told_so(crew: Crew, app: App) -> None:
    job = await app.enqueue("wait", {"seconds": 2 * LEASE, "first": 300}, max_attempts=10)
    first = crew.start("first")
    await crew.said("began", job)
    await stop_between_writes(first, app)
    crew.start("second")
    await crew.said("began", job, 2)
    first.send_signal(signal.SIGCONT)
    await crew.said("lost", job)
    after = await app.wait(job.id, PATIENCE)

    await assert_taken_over(crew, app, job)
    assert (after.status, crew.lines("lost", job)[0]) == (Status.COMPLETED, 1)


async def test_what_takes_too_long_is_stopped(crew: Crew, app: App) -> None:
    slow = await app.enqueue("wait", {"seconds": 60}, timeout=0.5, max_attempts=1)
    deaf = await app.enqueue("hold_everything", {"seconds": 60}, timeout=0.5, max_attempts=1)
    crew.start("first")
    for job in (slow, deaf):
        after = await app.wait(job.id, PATIENCE)
        assert after.error is not None
        assert (after.status, after.error.kind, after.fence) == (Status.FAILED, "timeout", 1)
    assert crew.lines("cancelled", slow) == [1]


async def test_a_job_that_kills_its_workers_ends_in_the_dead_letter(crew: Crew, app: App) -> None:
    pill, other = await app.enqueue("poison", max_attempts=2), await app.enqueue("wait", {"seconds": 0})
    for time in (1, 2):
        victim = crew.start("victim")
        await crew.said("began", pill, time)
        assert await crew.ended(victim) == -signal.SIGKILL
    crew.start("second")
    after = await app.wait(pill.id, PATIENCE)

    assert after.error is not None
    assert (after.status, after.error.kind, after.attempts) == (Status.FAILED, "lease_expired", 2)
    assert (await app.wait(other.id, PATIENCE)).status is Status.COMPLETED
    assert crew.lines("began", pill) == [1, 2]


async def test_one_that_is_only_busy_is_not_taken_over(crew: Crew, app: App) -> None:
    """A call in C holds everything in a process of its own, and its loop is blocked: it beats all the same."""
    crew.start("first")
    jobs: list[Job] = []
    for task in ("hold_everything", "block"):  # once its loop is blocked, nothing else begins
        jobs.append(await app.enqueue(task, {"seconds": LONG}))
        await crew.said("began", jobs[-1])
    crew.start("second")
    for job in jobs:
        after = await app.wait(job.id, PATIENCE)
        assert (after.status, after.result, after.worker_id) == (Status.COMPLETED, 1, "first")
        assert await log(app, job) == ["enqueued", "claimed", "completed"]


async def test_a_handler_is_told_that_its_claim_was_lost(crew: Crew, app: App) -> None:
    job = await app.enqueue("wait", {"seconds": 60})
    crew.start("first")
    await crew.said("began", job)
    await app.cancel(job.id)
    await crew.said("lost", job)

    after = await read(app, job)
    assert (after.status, after.result, after.attempts) == (Status.CANCELLED, None, 0)
