"""Counts: from the jobs themselves, exact and fresh up to 10,000 a state; beyond, a full count that is kept a while."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dibs.domain.job import Counts, QueueInfo
from dibs.store import COUNT_AGE, EXACT_COUNT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.clock import Clock

T = TypeVar("T")

Lane = Any
"""A row: queue, numbers of pending, scheduled, claimed, completed, failed, cancelled, and when the first was due."""

_Totals = list[int]  # pending, scheduled, claimed, completed, failed, cancelled


class Counter(ABC, Generic[T]):
    """Counts for one process, which remembers the large numbers for up to a minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._full: dict[str | None, tuple[float, _Totals]] = {}

    @abstractmethod
    async def lanes(self, turn: T, queue: str | None, upto: int | None) -> list[Lane]:
        """Count each lane's jobs, in each state up to a number."""

    async def counts(self, turn: T, queue: str | None) -> Counts:
        """Count the jobs of one queue or of all."""
        lanes = await self.lanes(turn, queue, EXACT_COUNT + 1)
        return await self._shown(turn, queue, _total(lanes))

    async def described(self, turn: T, paused: set[str]) -> list[QueueInfo]:
        """Describe every queue that has jobs or is paused."""
        lanes: dict[str, list[Any]] = {name: [] for name in paused}
        for lane in await self.lanes(turn, None, EXACT_COUNT + 1):
            lanes.setdefault(lane[0], []).append(lane)
        infos = []
        for queue in sorted(lanes):
            totals = _total(lanes[queue])
            if queue in paused or any(totals):
                counts = await self._shown(turn, queue, totals)
                oldest = min((lane[7] for lane in lanes[queue] if lane[7] is not None), default=None)
                infos.append(QueueInfo(queue, counts, queue in paused, oldest))
        return infos

    async def _shown(self, turn: T, queue: str | None, totals: _Totals) -> Counts:
        if max(totals) <= EXACT_COUNT:
            self._full.pop(queue, None)
            return _counts(totals, exact=True)
        now = self._clock.monotonic()
        taken, full = self._full.get(queue, (None, totals))
        if taken is None or abs(now - taken) >= COUNT_AGE:
            full = _total(await self.lanes(turn, queue, None))
            self._full[queue] = (now, full)
        # What is small is fresh even so; what is large is at least as large as was just seen.
        shown = [
            fresh if fresh <= EXACT_COUNT else max(old, EXACT_COUNT + 1)
            for fresh, old in zip(totals, full, strict=True)
        ]
        return _counts(shown, exact=False)


def _counts(totals: _Totals, *, exact: bool) -> Counts:
    pending, scheduled, claimed, completed, failed, cancelled = totals
    return Counts(pending, scheduled, claimed, completed, failed, cancelled, exact=exact)


def _total(lanes: Iterable[Lane]) -> _Totals:
    totals = [0] * 6
    for lane in lanes:
        for place in range(6):
            totals[place] += lane[1 + place]
    return totals
