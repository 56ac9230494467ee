"""A file for those who look after processes: it is young as long as the worker is well, and gone when it has ended.

It is written on the handlers' loop, and only if the store has heard of the worker lately: a loop that stands still and
a store that is away both let it age. How old is too old is for whoever looks to say.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dibs.broker.protocol import BEAT_EVERY
from dibs.domain.errors import Problem

if TYPE_CHECKING:
    from dibs.clock import Clock
    from dibs.worker.presence import Presence

logger = logging.getLogger("dibs")

WRITTEN_EVERY = 5.0
"""Seconds."""
LATELY = 2 * BEAT_EVERY
"""Seconds since the store last heard of the worker."""


class Health:
    """Writes the file until it is left."""

    def __init__(self, file: Path, worker_id: str, clock: Clock, presence: Presence) -> None:
        self._file, self._worker_id, self._clock, self._presence = file, worker_id, clock, presence
        self._running = asyncio.get_running_loop().create_task(self._run(), name="dibs-health")

    async def _run(self) -> None:
        while True:
            heard = self._presence.heard_at
            if heard is not None and self._clock.monotonic() - heard < LATELY:
                self._write()
            # Soon, as long as it has not been heard of at all: who waits for it to begin waits for this.
            await self._clock.sleep(WRITTEN_EVERY if heard is not None else 0.1)

    def _write(self) -> None:
        try:
            self._file.write_text(f"{self._worker_id}\n")
        except OSError as error:
            logger.warning("the health file cannot be written: %s", error)

    async def leave(self) -> None:
        """Write no more, and remove it."""
        self._running.cancel()
        with suppress(asyncio.CancelledError):
            await self._running
        with suppress(OSError):
            self._file.unlink(missing_ok=True)


def check_health_file(file: object) -> list[Problem]:
    """Check where it is to be, if anywhere."""
    if file is None:
        return []
    if not isinstance(file, str | Path):
        return [Problem("health_file", "must be a path")]
    path = Path(file)
    if path.is_dir():
        return [Problem("health_file", f"{path} is a folder; name a file in it")]
    if not path.parent.is_dir():
        return [Problem("health_file", f"there is no folder {path.parent}; make it first")]
    return []
