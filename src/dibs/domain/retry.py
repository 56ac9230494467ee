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

# 2**62 µs is the year 148108: past it a doubling no longer means anything, and a float would overflow at 2**1024.
_MAX_DOUBLINGS = 62


def micros(duration: Duration) -> int:
    """Turn what a caller gave as a duration into microseconds."""
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    return round(seconds * SECOND)


class Backoff(msgspec.Struct, frozen=True):
    """Exponential back-off with full jitter: a random time up to ``min(cap, base · 2^(attempts−1))`` seconds."""

    base: float = 1.0
    cap: float = 3600.0

    def ceiling(self, attempts: int) -> float:
        """Say how many seconds the wait after this many attempts can be at the most."""
        doublings = min(max(attempts - 1, 0), _MAX_DOUBLINGS)
        return min(self.cap, self.base * 2.0**doublings)

    def delay(self, attempts: int, random: Random) -> float:
        """Draw the wait after this many attempts, in seconds."""
        return random.uniform(0.0, self.ceiling(attempts))
