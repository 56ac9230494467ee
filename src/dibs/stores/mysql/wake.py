"""Waking: no one tells us what others commit, so those who wait look for it, ever more seldom while nothing happens.

A crowd looks in turn: of many who wait for the same each looks so much more seldom, as any of them may find the job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.stores.common.waiting import Pace, in_turn

if TYPE_CHECKING:
    from dibs.clock import Clock
    from dibs.store import Rivals

_SHORTEST = 0.05  # seconds between two looks while there is something to do
_LONGEST = 1.0
_SHARE = 4  # a quarter of the time that nothing has happened
_TRUST = 0.9  # of that: all who want the same, in one process, look together


class Activity:
    """When this process last saw that there is something to do."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = clock.monotonic()

    def noted(self) -> None:
        """Something was enqueued, or claimed."""
        self._last = self._clock.monotonic()

    async def pace(self, rivals: Rivals) -> Pace:
        """Say how often to look."""
        quiet = self._clock.monotonic() - self._last
        poll = await in_turn(min(max(quiet / _SHARE, _SHORTEST), _LONGEST), rivals)
        return Pace(poll * _TRUST, poll)
