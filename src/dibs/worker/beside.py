"""What a worker does beside its handlers: off their loop, until the worker leaves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from dibs.clock import Bell

if TYPE_CHECKING:
    from dibs.keeper import Handle
    from dibs.runtime import Runtime


class Beside(ABC):
    """Runs in the background from ``begin`` on; who waits in it listens to the bell, which is rung when it is over."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._bell = Bell(runtime.clock)
        self._left = False
        self._running: Handle | None = None

    def begin(self) -> None:
        """Run from now on."""
        self._running = self._runtime.background(self._run())

    async def leave(self) -> None:
        """Come to an end, and wait for it."""
        self._left = True
        self._bell.ring()
        if self._running is not None:
            await self._runtime.ended(self._running)

    @abstractmethod
    async def _run(self) -> None:
        """Go on until it is left."""
