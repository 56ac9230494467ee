"""An app on each kind of store, and over a server process, whose time passes by itself; and workers for it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dibs import App, Counts, Job, Worker
from tests.broker.serving import Process
from tests.worker.crews import Crew
from tests.worker.execs import Execs, execs_on


@pytest.fixture(scope="session")
def process() -> Iterator[Process]:
    with Process() as process:
        yield process


@pytest.fixture(params=["memory", "sqlite", "served"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "served":
        process: Process = request.getfixturevalue("process")
        process.tell("begin_openly", url=f"sqlite:///{tmp_path / 'jobs.db'}")
        yield process.url
        process.tell("end")
    else:
        yield "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'jobs.db'}"


@pytest.fixture
async def app(url: str) -> AsyncIterator[App]:
    async with App(url, reap_every=0.2) as app:
        yield app


@pytest.fixture
def execs(url: str, tmp_path: Path) -> Iterator[Execs]:
    with execs_on(url, tmp_path) as execs:
        yield execs


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path)
    yield crew
    for process in crew.processes:
        if process.poll() is None:
            process.kill()
        process.wait()


@asynccontextmanager
async def working(app: App, **options: Any) -> AsyncIterator[Worker]:
    """A worker that runs for as long as the block, and is stopped at its end."""
    worker = Worker(app, **options)
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        await asyncio.wait_for(running, 30)


async def until(condition: Callable[[], Any], seconds: float = 10.0) -> None:
    """Wait until something has come true."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - it may be anything
            await asyncio.sleep(0.005)


async def until_counts(app: App, condition: Callable[[Counts], bool]) -> None:
    """Wait until the store shows so many jobs in a state."""
    async with asyncio.timeout(10):
        while not condition(await app.counts()):  # noqa: ASYNC110 - likewise
            await asyncio.sleep(0.005)


async def work(app: App, **options: Any) -> None:
    """Run a worker until there is nothing left to do."""
    await asyncio.wait_for(Worker(app, **options).run(until_idle=True), 30)


async def read(app: App, job: Job) -> Job:
    """Read a job that is there."""
    found = await app.get(job.id)
    assert found is not None
    return found
