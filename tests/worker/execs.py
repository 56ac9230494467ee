"""``dibs exec`` in processes of its own, and what can be seen of them from outside."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MAIN = "from dibs.cli import main; main()"


HEED = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL); "
"""Whoever runs the tests may not: what nohup ignores is inherited."""


class Execs:
    """Starts ``dibs exec`` for the task ``t`` in a folder, where its commands may leave files."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, *command: str, options: tuple[str, ...] = (), code: str = MAIN) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-c", HEED + code, "exec", "--task", "t", *options, "--", *command]
        environment = {**os.environ, "DIBS_STORE": self.url, "HERE": str(self.folder)}
        with (self.folder / f"said-{len(self.processes)}").open("w") as said:
            process = subprocess.Popen(words, cwd=self.folder, env=environment, stdout=said, stderr=said)
        self.processes.append(process)
        return process

    async def ended(self, process: subprocess.Popen[bytes]) -> str:
        """Wait for the end of one; give what it said."""
        await asyncio.to_thread(process.wait, 30)
        return await asyncio.to_thread((self.folder / f"said-{self.processes.index(process)}").read_text)

    async def run(self, *command: str, options: tuple[str, ...] = ()) -> str:
        """Have everything done that there is to do; give what was said."""
        process = self.start(*command, options=("--until-idle", *options))
        said = await self.ended(process)
        assert process.returncode == 0, said
        return said

    def numbers(self, name: str) -> list[int]:
        """Read the process ids that commands have written to a file, line by line."""
        file = self.folder / name
        return (
            [int(line) for line in file.read_text().splitlines(keepends=True) if "\n" in line] if file.exists() else []
        )

    async def written(self, name: str, lines: int = 1) -> list[int]:
        await until(lambda: len(self.numbers(name)) >= lines)
        return self.numbers(name)


@contextmanager
def execs_on(url: str, folder: Path) -> Iterator[Execs]:
    """Have some, and none of them after that."""
    execs = Execs(url, folder)
    try:
        yield execs
    finally:
        for process in execs.processes:
            if process.poll() is None:
                process.kill()
            process.wait()


def state(pid: int) -> str:
    """Say what a process does, in the kernel's letter; nothing if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return text.rpartition(")")[2].split()[0]


def gone(*pids: int) -> bool:
    """Say whether none of them runs: whoever adopted them may not have buried them yet."""
    return all(state(pid) in {"", "Z"} for pid in pids)


def most_memory(pid: int) -> int:
    """The most memory that a process ever had, in KiB."""
    return int(Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0])


def open_files(pid: int) -> int:
    """How many files a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def children(pid: int) -> dict[int, str]:
    """The processes that a process has started and not buried, and what they do."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(words[1]) == pid:
                found[int(folder.name)] = words[0]
    return found


async def until(condition: Callable[[], object], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - it is another process that makes it true
            await asyncio.sleep(0.01)
