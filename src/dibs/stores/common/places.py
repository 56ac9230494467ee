"""How far lanes are known to be empty, so that a claim need not walk again over the index entries of jobs long gone.

PostgreSQL cannot remove those while any transaction, of whomever, may still see them: without this, one that is held
open makes every claim slower than the one before. Something may come in behind such a place: a transaction that commits
late, a job given back on another machine. So a place is forgotten after a second at the latest, and it stays a little
behind the present, where commits are still on their way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.clock import Clock

RESCAN_SECONDS = 1.0
"""How long something may be overlooked, at most."""

_LAG_US = 250_000  # how long a commit may take that is never overlooked
_MOST = 100  # lanes; the others are walked from their start

Arrays = tuple[list[int], list[int], list[int]]  # lane, due, seq


class Places:
    """What one process knows about the lanes that it claims from."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[int, tuple[int, int]] = {}
        self._since = clock.monotonic()

    def read(self) -> Arrays:
        """Give the places, as a statement takes them."""
        now = self._clock.monotonic()
        if abs(now - self._since) >= RESCAN_SECONDS:
            self._known, self._since = {}, now
        known = list(self._known.items())
        return [lane for lane, _ in known], [due for _, (due, _) in known], [seq for _, (_, seq) in known]

    def reached(self, taken: Iterable[tuple[int, int, int]], now: int) -> None:
        """Note that jobs were taken, each the first that was left in its lane: lane, due, seq."""
        lag = (now - _LAG_US, -1)
        for lane, due, seq in taken:
            place = min((due, seq), lag)
            known = self._known.get(lane)
            if (known is None and len(self._known) < _MOST) or (known is not None and place > known):
                self._known[lane] = place

    def returned(self, lanes: Iterable[tuple[int, int]]) -> None:
        """Note that jobs have come back, to lane and due time."""
        for lane, due in lanes:
            known = self._known.get(lane)
            if known is not None and due <= known[0]:
                self._known.pop(lane, None)
