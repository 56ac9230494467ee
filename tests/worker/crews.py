"""Workers in processes of their own, on one file: how they are run, and what they leave behind."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from dibs import App

HERE = Path(__file__).parent


class Crew:
    """Worker processes on one file."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'jobs.db'}"
        self.runs = folder / "runs"
        self.environment = {**os.environ, "DIBS_STORE": self.url, "TEST_RUNS": str(self.runs)}
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", "from dibs.cli import main; main()", "worker", "crew_app:app", *options]
        with Path(f"{self.runs}-{len(self.processes)}").open("w") as said:
            process = subprocess.Popen(command, cwd=HERE, env=self.environment, stdout=said, stderr=said)
        self.processes.append(process)
        return process

    async def ended(self, process: subprocess.Popen[bytes]) -> str:
        """Wait for a process; give what it said."""
        said = Path(f"{self.runs}-{self.processes.index(process)}")
        await asyncio.to_thread(process.wait, 20)
        return await asyncio.to_thread(said.read_text)

    def lines(self, what: str) -> list[tuple[str, int]]:
        """Which jobs began or ended, and under which fence."""
        return [(id, int(fence)) for kind, id, fence, _ in self._words() if kind == what]

    def pids(self, what: str) -> list[int]:
        """In which processes, in turn."""
        return [int(pid) for kind, _, _, pid in self._words() if kind == what]

    def _words(self) -> list[list[str]]:
        if not self.runs.exists():
            return []
        whole = self.runs.read_text().rpartition("\n")[0]  # the last line may be on its way
        return [line.split() for line in whole.splitlines()]

    def said(self, process: subprocess.Popen[bytes]) -> str:
        """What it has said until now."""
        return Path(f"{self.runs}-{self.processes.index(process)}").read_text()


async def until(condition: Callable[[], object], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - it is another process that makes it true
            await asyncio.sleep(0.01)


async def all_ended(app: App, number: int, seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while (await app.counts()).completed < number:  # noqa: ASYNC110 - likewise
            await asyncio.sleep(0.05)


async def all_at_work(app: App, number: int) -> None:
    """Wait until so many have begun: a signal that comes before a process knows what to do with it just ends it."""
    async with asyncio.timeout(60):
        while sum(worker.status == "active" for worker in await app.workers()) < number:  # noqa: ASYNC110 - likewise
            await asyncio.sleep(0.05)
