"""An event loop whose time is virtual: it jumps to the next timer as soon as there is nothing left to do."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, Final

from dibs.clock import Clock
from dibs.domain.retry import SECOND

START: Final = 1_800_000_000 * SECOND
"""When every world begins, by the store's clock."""


_MOST_TURNS: Final = 100_000  # of the loop in one and the same moment; more is a loop without end


class Stuck(BaseException):
    """Nothing is left to do, no timer is set, and the world has not ended; or it runs on without time going by."""


class _Jump:
    """Stands where the selector of a real loop stands: instead of waiting for the time to pass, it lets it pass."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._turns = 0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Stuck
        self._turns = 0 if timeout > 0 else self._turns + 1
        if self._turns > _MOST_TURNS:
            raise Stuck
        self._loop.now += timeout
        return []


class SimLoop(asyncio.BaseEventLoop):
    """Runs callbacks in the order in which they were made, like any loop, and never touches a socket."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.unhandled: list[str] = []
        self._selector = _Jump(self)
        self._clock_resolution = 1e-9
        self.set_exception_handler(lambda _, context: self._note(context))

    def time(self) -> float:
        """Tell the virtual time, in seconds from the beginning."""
        return self.now

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nothing sleeps, so there is no one to wake."""

    def _note(self, context: dict[str, Any]) -> None:
        if "exception" in context:
            self.unhandled.append(f"{context.get('message')}: {context['exception']!r}")


class SimClock(Clock):
    """The time of one machine in a world: that of its loop, and by how much its clock was set wrong."""

    threads = False

    def __init__(self, loop: SimLoop, random: Random) -> None:
        super().__init__(random)
        self._loop = loop
        self.skew_us = 0

    def now(self) -> int:
        """Tell the time in microseconds."""
        return START + round(self._loop.now * SECOND) + self.skew_us

    def monotonic(self) -> float:
        """Count virtual seconds."""
        return self._loop.now

    def random_bytes(self, count: int) -> bytes:
        """Draw bytes that repeat with the seed."""
        return self.random.randbytes(count)
