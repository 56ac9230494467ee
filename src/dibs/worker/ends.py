"""A worker that has ended jobs of a batch looks whether that was all of it; maintenance looks too, but less often."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from dibs.domain.errors import DibsError

if TYPE_CHECKING:
    from dibs.runtime import Runtime

logger = logging.getLogger("dibs")

SOON = 0.5
"""Seconds from the first end to the look, which is for all that come meanwhile."""


class BatchEnds:
    """Has the last jobs of batches enqueued: soon, or, if not ``by_itself``, when it is asked to."""

    def __init__(self, runtime: Runtime) -> None:
        self.by_itself = True
        self._runtime = runtime
        self._noted = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    def note(self) -> None:
        """Hear that jobs of a batch have ended."""
        self._noted.set()
        if self.by_itself and self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run(), name="dibs-batches")

    async def _run(self) -> None:
        while True:
            await self._noted.wait()
            await self._runtime.clock.sleep(SOON)
            await self.look()

    async def look(self) -> bool:
        """Look now, if jobs of a batch have ended since; say whether they had."""
        if not self._noted.is_set():
            return False
        self._noted.clear()
        try:
            await self._runtime.broker().end_batches()
        except DibsError as error:
            logger.warning("the end of batches is left to maintenance: %s", error)
        except BaseException:
            self._noted.set()
            raise
        return True

    async def leave(self) -> None:
        """Look a last time."""
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running
        await self.look()
