"""The other processes of a case: started, listened to, and gone when the case is over."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench.run import Broken

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 600.0
"""Seconds until a process that says nothing is given up: the slowest needs a fraction of that."""


class Child:
    """A process that says what it saw in lines of JSON."""

    def __init__(self, about: str, process: Process) -> None:
        self._about, self.process = about, process
        self.killed = False

    def kill(self) -> None:
        """Kill it: then its end is not held against it."""
        self.killed = True
        self.process.kill()

    def stop(self) -> None:
        """Tell it to end, by closing what it reads."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        try:
            async with asyncio.timeout(PATIENCE):
                line = await self.process.stdout.readline()
        except TimeoutError:
            raise Broken(f"{self._about} said nothing for {PATIENCE:.0f} s") from None
        if not line:
            raise Broken(f"{self._about} ended without a word")
        news: dict[str, Any] = json.loads(line)
        return news


@asynccontextmanager
async def started(about: str, *command: str, env: dict[str, str] | None = None) -> AsyncIterator[Child]:
    """Start it; wait for its end, which must be a good one, unless the case has failed already."""
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, cwd=ROOT, env=env, limit=1 << 24)
    try:
        child = Child(about, process)
        yield child
        if await process.wait() and not child.killed:
            raise Broken(f"{about} failed")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
