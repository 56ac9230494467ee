"""The file that says that a worker is well."""

import asyncio
import signal
from pathlib import Path

import pytest

from dibs import App, InvalidRequest, Worker
from dibs.worker import health, presence
from tests.worker.conftest import until, working
from tests.worker.crews import Crew


@pytest.fixture
def tasks(app: App) -> App:
    @app.task
    async def noop() -> None: ...

    return app


async def test_it_is_written_while_the_worker_is_well_and_gone_with_it(
    tasks: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "WRITTEN_EVERY", 0.01)
    file = tmp_path / "health"
    async with working(tasks, worker_id="w", health_file=file):
        await until(file.exists)
        assert file.read_text() == "w\n"
        first = file.stat().st_mtime_ns
        await until(lambda: file.stat().st_mtime_ns > first)
    assert not file.exists()


async def test_it_ages_when_the_store_does_not_hear_of_the_worker(
    tasks: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "WRITTEN_EVERY", 0.01)
    monkeypatch.setattr(health, "LATELY", 0.5)
    monkeypatch.setattr(presence, "BEAT_EVERY", 600.0)  # so that the next is seconds away, whenever it is drawn to be
    file = tmp_path / "health"
    async with working(tasks, health_file=file):
        await until(file.exists)
        await asyncio.sleep(1)
        last = file.stat().st_mtime_ns
        await asyncio.sleep(0.5)
        assert file.stat().st_mtime_ns == last


async def test_a_folder_that_is_lost_meanwhile_hurts_no_one(
    tasks: App, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    worker = Worker(tasks, health_file=folder / "health")
    folder.rmdir()
    running = asyncio.create_task(worker.run())
    await until(lambda: "cannot be written" in caplog.text)
    worker.stop()
    await asyncio.wait_for(running, 10)


@pytest.mark.parametrize(("file", "told"), [("", "is a folder"), ("none/health", "no folder"), (3, "must be a path")])
def test_a_place_where_it_cannot_be(tmp_path: Path, file: str | int, told: str) -> None:
    app = App("memory://")

    @app.task
    def noop() -> None: ...

    with pytest.raises(InvalidRequest, match=f"health_file.*{told}"):
        Worker(app, health_file=tmp_path / file if isinstance(file, str) else file)  # type: ignore[arg-type]


async def test_each_of_several_processes_has_its_own(crew: Crew, tmp_path: Path) -> None:
    file = tmp_path / "health"
    process = crew.start("--processes", "2", "--health-file", str(file))
    each = [Path(f"{file}.{place}") for place in range(2)]
    await until(lambda: all(one.exists() for one in each), 30)
    process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(process.wait, 30) == 0
    assert not any(one.exists() for one in each)
