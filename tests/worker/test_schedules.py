"""Schedules, by real worker processes: each tick is enqueued once and run once, whoever dies on the way."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dibs import App, Job
from tests.servers.databases import empty_postgres, empty_redis

HERE = Path(__file__).parent

CHANGES = {
    # When the clocks are changed in UTC; and a fixed local time that is skipped, or comes twice, at that very moment.
    "Europe/Berlin, March": ("2027-03-28T01:00", "Europe/Berlin", "30 2 * * *"),
    "Europe/Berlin, October": ("2027-10-31T01:00", "Europe/Berlin", "0 2 * * *"),
    "America/New_York, March": ("2027-03-14T07:00", "America/New_York", "30 2 * * *"),
    "America/New_York, November": ("2027-11-07T06:00", "America/New_York", "0 1 * * *"),
}


class Crew:
    """Worker processes that share a store and its schedules."""

    def __init__(self, folder: Path, url: str) -> None:
        self.url = url
        self.runs = folder / "runs"
        self._folder = folder
        self.environment = {**os.environ, "DIBS_STORE": url, "TEST_RUNS": str(self.runs)}
        self.processes: list[subprocess.Popen[bytes]] = []

    def change(self, name: str, seconds: float) -> None:
        """Let the clocks be changed so many seconds from now."""
        text, zone, fixed = CHANGES[name]
        moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
        ahead = moment - timedelta(seconds=seconds) - datetime.now(UTC)
        offset = ahead // timedelta(microseconds=1) * 1000
        self.environment |= {"TEST_OFFSET_NS": str(offset), "TEST_ZONE": zone, "TEST_FIXED": fixed}

    def start(self, **more: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", "from dibs.cli import main; main()", "worker", "ticking_app:app"]
        with (self._folder / f"said-{len(self.processes)}").open("w") as said:
            process = subprocess.Popen(command, cwd=HERE, env={**self.environment, **more}, stdout=said, stderr=said)
        self.processes.append(process)
        return process

    def said(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self._folder.glob("said-*")))

    def ran(self) -> list[str]:
        """The keys of the ticks whose handlers ran."""
        return self.runs.read_text().split() if self.runs.exists() else []

    async def end(self) -> None:
        alive = [process for process in self.processes if process.poll() is None]
        for process in alive:
            process.terminate()
        for process in alive:
            assert await asyncio.to_thread(process.wait, 30) == 0, self.said()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'jobs.db'}"


@pytest.fixture
def crew(tmp_path: Path, url: str) -> Iterator[Crew]:
    crew = Crew(tmp_path, url)
    yield crew
    for process in crew.processes:
        if process.poll() is None:
            process.kill()
        process.wait()


@pytest.fixture
async def app(url: str) -> AsyncIterator[App]:
    async with App(url) as app:
        yield app


async def jobs_of(app: App, name: str) -> list[Job]:
    return [job async for job in app.find(tag=f"schedule:{name}", limit=1000)]


async def until_ticked(app: App, crew: Crew, number: int, seconds: float = 40) -> None:
    async with asyncio.timeout(seconds):
        while len(await jobs_of(app, "second")) < number:
            assert any(process.poll() is None for process in crew.processes), crew.said()
            await asyncio.sleep(0.05)


async def times_of(app: App, name: str) -> list[datetime]:
    """Which ticks were enqueued; each once, or it is no good."""
    keys = [str(job.idempotency_key) for job in await jobs_of(app, name)]
    assert len(set(keys)) == len(keys)
    return sorted(datetime.fromisoformat(key.removeprefix(f"schedule:{name}:")) for key in keys)


def assert_whole(times: list[datetime], step: float, at_least: int) -> None:
    """None left out between the first and the last."""
    assert len(times) >= at_least
    assert times == [times[0] + place * timedelta(seconds=step) for place in range(len(times))]


async def three_processes(crew: Crew, app: App, change: str, seconds: float) -> None:
    crew.change(change, seconds / 2 + 3)
    for _ in range(3):
        crew.start()
    await until_ticked(app, crew, 3)
    end = time.monotonic() + seconds
    await until_ticked(app, crew, int(seconds / 3), seconds + 40)
    crew.processes[0].send_signal(signal.SIGKILL)
    crew.start()
    await asyncio.sleep(max(0.0, end - time.monotonic()))  # it is to go on for so long
    await crew.end()

    moment, _, _ = CHANGES[change]
    times = await times_of(app, "second")
    assert_whole(times, 1, int(seconds * 0.9))
    assert times[0] < datetime.fromisoformat(moment).replace(tzinfo=UTC) < times[-1]
    assert_whole(await times_of(app, "regular"), 2, int(seconds * 0.4))
    # Skipped: it comes as soon as that is so. Repeated: it came an hour ago, the first time.
    fixed = [time.isoformat() for time in await times_of(app, "fixed")]
    assert fixed == ([f"{moment}:00+00:00"] if "March" in change else [])
    ran = crew.ran()
    # Whoever was killed may have had one in hand; it comes again once its lease has run out.
    assert len(ran) - len(set(ran)) <= 10
    ended = {str(job.idempotency_key) for job in await jobs_of(app, "second") if job.status == "completed"}
    assert set(ran) >= ended
    assert len(ended) >= seconds * 0.6
    assert (await app.verify()).ok


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", ["Europe/Berlin, March", pytest.param("America/New_York, November", marks=pytest.mark.again)]
)
async def test_three_processes_enqueue_each_tick_once(crew: Crew, app: App, change: str) -> None:
    await three_processes(crew, app, change, 15)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("change", CHANGES)
async def test_three_processes_for_two_minutes(crew: Crew, app: App, change: str) -> None:
    await three_processes(crew, app, change, 120)


@pytest.mark.slow
async def test_killed_between_enqueueing_a_tick_and_moving_on(crew: Crew, app: App) -> None:
    dies = crew.start(TEST_DIES="1")
    assert await asyncio.to_thread(dies.wait, 40) == -signal.SIGKILL, crew.said()
    before = await jobs_of(app, "second")  # one, or more if the machine was slow
    assert before
    assert await jobs_of(app, "regular") == []
    assert [info.last_tick_at for info in await app.schedules()] == [None, None, None]
    crew.start()
    await until_ticked(app, crew, 5)
    await crew.end()

    assert_whole(await times_of(app, "second"), 1, 5)
    assert_whole(await times_of(app, "regular"), 2, 2)
    assert {job.id for job in before} <= {job.id for job in await jobs_of(app, "second")}


@pytest.mark.long
@pytest.mark.timeout(120)
class TestOnServers:
    """The same on servers, whose own clocks rule: without a change of the clocks."""

    @pytest.fixture(params=[empty_postgres, empty_redis], ids=["postgres", "redis"])
    def url(self, request: pytest.FixtureRequest) -> str:
        made: str = request.param()
        return made

    async def test_three_processes_enqueue_each_tick_once(self, crew: Crew, app: App) -> None:
        for _ in range(3):
            crew.start()
        await until_ticked(app, crew, 15)
        await crew.end()

        assert_whole(await times_of(app, "second"), 1, 15)
        assert_whole(await times_of(app, "regular"), 2, 6)
