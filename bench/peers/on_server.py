"""What the async programs on a server have in common: such a queue behind the plain calls that every program answers.

The folder that they are given holds one file, ``url``: an empty database of this turn's own. One event loop,
uvloop's, serves the life of the process; so nothing is connected anew for a call, and no one has a slower loop.
"""

from __future__ import annotations

import asyncio
import atexit
import time
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from bench.peers.program import LOOK, Job, Produced, Seen, produced, url_in

T = TypeVar("T")

NEWS = 0.005
"""Seconds between two looks whether a worker that is stopped from outside has handled everything."""


class ServerQueue(ABC):
    """Implements ``bench.peers.program.Queue``."""

    def __init__(self, folder: Path) -> None:
        import uvloop  # type: ignore[import-not-found, unused-ignore]

        self.url = url_in(folder)
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._opened = False
        atexit.register(self._end)

    @abstractmethod
    def about(self) -> str: ...

    @abstractmethod
    async def open(self) -> None:
        """Connect, and make the schema if this process is the first."""

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    async def add(self, jobs: list[Job]) -> None:
        """Enqueue one, or many in one call."""

    @abstractmethod
    async def count(self) -> int:
        """How many jobs are not done, as the store has it."""

    @abstractmethod
    async def start(self, seen: Seen) -> None:
        """Start one worker on this loop."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop it, and wait until it has told the store of all that it did."""

    # What the programs call

    def put(self, job: Job) -> None:
        self._run(self.add([job]))

    def put_many(self, jobs: list[Job]) -> None:
        self._run(self.add(jobs))

    def produce(self, jobs: int) -> list[Produced]:
        return self._run(produced(jobs, lambda job: self.add([job])))

    def left(self) -> int:
        return self._run(self.count())

    def work(self, seen: Seen) -> None:
        self._run(self._work(seen))

    def follow(self, seen: Seen) -> None:
        self._run(self._work(seen))

    def _end(self) -> None:
        if self._opened:
            self._run(self.close())
        self._runner.close()

    async def _work(self, seen: Seen) -> None:
        await self.start(seen)
        await self._until_settled(seen)
        await self.stop()

    async def _until_settled(self, seen: Seen) -> None:
        """Wait until everything was handled, and the store shows nothing left."""
        while not seen.all.is_set() and seen.hopeful():  # noqa: ASYNC110 (a thread may be who handles them)
            await asyncio.sleep(NEWS)
        while await self.count() and seen.hopeful():  # noqa: ASYNC110 (only the store knows)
            await asyncio.sleep(LOOK)
        seen.emptied = time.monotonic()

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        if not self._opened:
            self._opened = True
            self._runner.run(self.open())
        return self._runner.run(call)
