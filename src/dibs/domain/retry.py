"""How long to wait before a failed attempt is tried again."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from random import Random

Duration = float | timedelta
"""Seconds, or a timedelta: wherever dibs takes a length of time."""

SECOND = 1_000_000
"""Microseconds; the unit that dibs counts time in, inside."""

# 2**62 µs is the year 148108: past it a doubling no longer means anything, and after a million it would fill memory.
_MAX_DOUBLINGS = 62


def micros(duration: Duration) -> int:
    """Turn what a caller gave as a duration into microseconds."""
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    return round(seconds * SECOND)


class Backoff(msgspec.Struct, frozen=True):
    """Exponential back-off with full jitter: a random time up to ``min(cap, base · 2^(attempts−1))`` seconds."""

    base: Duration = 1.0
    cap: Duration = 3600.0

    def in_seconds(self) -> Backoff:
        """Give the same as plain numbers, as it is stored on a job."""
        return Backoff(micros(self.base) / SECOND, micros(self.cap) / SECOND)

    def ceiling(self, attempts: int) -> float:
        """Say how many seconds the wait after this many attempts can be at the most."""
        doublings = min(max(attempts - 1, 0), _MAX_DOUBLINGS)
        return min(micros(self.cap), micros(self.base) << doublings) / SECOND

    def delay(self, attempts: int, random: Random) -> float:
        """Draw the wait after this many attempts, in seconds."""
        return random.uniform(0.0, self.ceiling(attempts))
