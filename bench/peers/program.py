"""What the programs have in common: how they are started, and what they say, in lines of JSON.

``python -m bench.peers.NAME MODE FOLDER JOBS``: it opens its queue in that folder and does one of the modes.
Jobs are numbered from zero. ``time.monotonic`` is the machine's: all of its processes read the same clock.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

Job = dict[str, Any]
Produced = tuple[int, float, float]  # number, when it was asked for, when it was acknowledged

BATCH = 1000
EVERY = 0.05
"""Seconds between two jobs of a producer, more or less."""
PATIENCE = 5.0
"""Seconds without any news after which jobs that are missing are given up for lost."""
FIRST = 60.0
"""Seconds until the first news: who enqueues may be another process, which has to start on a busy machine."""
LOOK = 0.001
"""Seconds between two looks into a queue that cannot wake who waits."""


class Seen:
    """The jobs that were handled, and when each was started."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.numbers: list[int] = []
        self.starts: list[float] = []
        self.all = threading.Event()
        self.emptied = 0.0
        self.news = time.monotonic()

    def handle(self, number: int, at: float | None = None) -> None:
        """Do nothing, as every contender's handler does, and remember it; ``at`` is told by another process."""
        self.news = time.monotonic()
        self.starts.append(self.news if at is None else at)
        self.numbers.append(number)
        if len(self.numbers) >= self.jobs:
            self.all.set()

    def hopeful(self) -> bool:
        """Whether there was news of late, so that more may come."""
        return time.monotonic() - self.news < (PATIENCE if self.numbers else FIRST)


class Queue(Protocol):
    """A queue on files in one folder, or on the server whose URL is there."""

    def about(self) -> str:
        """Say which version of it this is, and how it is set up."""

    def put(self, job: Job) -> None: ...

    def put_many(self, jobs: list[Job]) -> None: ...

    def left(self) -> int:
        """How many jobs are not done, as the store has it."""

    def work(self, seen: Seen) -> None:
        """Handle what is there until there is nothing more."""

    def follow(self, seen: Seen) -> None:
        """Handle what comes, as soon as it comes, until all that was announced is handled."""


@runtime_checkable
class AsyncQueue(Protocol):
    """One whose producers are tasks of an event loop."""

    def produce(self, jobs: int) -> list[Produced]:
        """Enqueue so many, one now and then."""


def job(number: int) -> Job:
    """The same for everyone, and of usual size."""
    return {"to": "someone@example.com", "subject": "a job of usual size", "number": number}


def library(name: str) -> str:
    """A peer's version, and that of the SQLite that it uses."""
    import sqlite3  # noqa: TID251 (peers use what the standard library links)
    from importlib.metadata import version

    return f"{version(name)}, SQLite {sqlite3.sqlite_version}"


def versions(*names: str) -> str:
    from importlib.metadata import version

    return ", ".join(f"{name} {version(name)}" for name in names)


def url_in(folder: Path) -> str:
    """The URL of this turn's own database, for a queue on a server."""
    return (folder / "url").read_text(encoding="utf-8")


def settled(queue: Queue, seen: Seen) -> None:
    """Wait until the store shows nothing left, for a worker that is stopped from outside."""
    while not seen.all.wait(0.1) and seen.hopeful():
        pass
    while queue.left() and seen.hopeful():
        time.sleep(LOOK)
    seen.emptied = time.monotonic()


def main(opened: Callable[[Path], Queue]) -> None:
    mode, folder, jobs = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    _MODES[mode](opened(folder), jobs)


def _say(**news: object) -> None:
    print(json.dumps(news), flush=True)


def _about(queue: Queue, _jobs: int) -> None:
    _say(about=queue.about())


def _single(queue: Queue, jobs: int) -> None:
    began = time.perf_counter()
    for number in range(jobs):
        queue.put(job(number))
    _say(seconds=time.perf_counter() - began, left=queue.left())


def _batch(queue: Queue, jobs: int) -> None:
    began = time.perf_counter()
    for start in range(0, jobs, BATCH):
        queue.put_many([job(number) for number in range(start, min(start + BATCH, jobs))])
    _say(seconds=time.perf_counter() - began, left=queue.left())


def _work(queue: Queue, jobs: int) -> None:
    seen, before = Seen(jobs), _cpu()
    queue.work(seen)
    cpu, left = _cpu() - before, queue.left()
    emptied = seen.emptied or time.monotonic()
    _say(numbers=seen.numbers, first=min(seen.starts), last=max(seen.starts), emptied=emptied, left=left, cpu=cpu)


def _cpu() -> float:
    """Seconds of CPU of this process, and of those that it started and that have ended."""
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _produce(queue: Queue, jobs: int) -> None:
    if isinstance(queue, AsyncQueue):
        _say(jobs=queue.produce(jobs))
        return
    done: list[Produced] = []
    for number in range(jobs):
        time.sleep(_pause())
        asked = time.monotonic()
        queue.put(job(number))
        done.append((number, asked, time.monotonic()))
    _say(jobs=done)


async def produced(jobs: int, put: Callable[[Job], Awaitable[object]]) -> list[Produced]:
    """Produce on a loop that runs all the time: to start and stop it for each job would take longer than the job."""
    done: list[Produced] = []
    for number in range(jobs):
        await asyncio.sleep(_pause())
        asked = time.monotonic()
        await put(job(number))
        done.append((number, asked, time.monotonic()))
    return done


def _pause() -> float:
    """Uneven, so that it does not fall into step with whoever looks at intervals."""
    return EVERY * random.uniform(0.5, 1.5)


def _follow(queue: Queue, jobs: int) -> None:
    seen = Seen(jobs)
    _say(ready=True)
    queue.follow(seen)
    _say(handled=list(zip(seen.numbers, seen.starts, strict=True)), left=queue.left())


_MODES = {
    "about": _about,
    "single": _single,
    "batch": _batch,
    "work": _work,
    "produce": _produce,
    "follow": _follow,
}
