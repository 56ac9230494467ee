"""How far ahead a worker may claim, and how soon it asks again for what went wrong.

It claims as many jobs ahead as it ended within the last second, so that none waits longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dibs.clock import Clock
    from dibs.runtime import Runtime

LONGEST_RETRY = 5.0
"""Seconds between two tries while the store cannot be reached, at the most."""


def pause(runtime: Runtime, failures: int) -> float:
    """Draw how long to wait after so many failures: soon longer, but no longer than until a worker would look anyway.

    So work goes on within two polling intervals of the end of whatever was wrong.
    """
    longest = min(LONGEST_RETRY, max(0.1, runtime.config.poll_every))
    return min(longest, 0.1 * 2.0 ** min(failures, 6)) * runtime.clock.random.uniform(0.5, 1.0)


class Pace:
    """Counts what has ended, by the second."""

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock = clock
        self._most = most
        self._second = 0
        self._now = 0
        self._before = 0

    def count(self) -> None:
        """Note that a job has ended."""
        self._turn()
        self._now += 1

    def ahead(self) -> int:
        """Say how many jobs may be claimed that cannot be started at once."""
        self._turn()
        return min(self._most, max(self._now, self._before))

    def _turn(self) -> None:
        second = int(self._clock.monotonic())
        if second != self._second:
            self._before = self._now if second == self._second + 1 else 0
            self._second, self._now = second, 0
