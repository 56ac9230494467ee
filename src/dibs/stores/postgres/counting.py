"""Counts: from the jobs themselves, exact and fresh up to 10,000 a state; beyond, a full count that is kept a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.domain.job import Counts, QueueInfo
from dibs.store import COUNT_AGE, EXACT_COUNT
from dibs.stores.postgres.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.clock import Clock
    from dibs.stores.postgres.turn import Turn

_COUNT = statement("count")
_PAUSED = statement("document_paused")

_Totals = list[int]  # pending, scheduled, claimed, completed, failed, cancelled


class Counter:
    """Counts for one process, which remembers the large numbers for up to a minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._full: dict[str | None, tuple[float, _Totals]] = {}

    async def counts(self, turn: Turn, queue: str | None) -> Counts:
        """Count the jobs of one queue or of all."""
        lanes = await turn.fetch(_COUNT, turn.told, queue, EXACT_COUNT + 1)
        return await self._shown(turn, queue, _total(lanes))

    async def queues(self, turn: Turn) -> list[QueueInfo]:
        """Describe every queue that has jobs or is paused."""
        async with turn.snapshot():
            paused = {row[0] for row in await turn.fetch(_PAUSED, turn.told)}
            found = await turn.fetch(_COUNT, turn.told, None, EXACT_COUNT + 1)
            lanes: dict[str, list[Any]] = {name: [] for name in paused}
            for lane in found:
                lanes.setdefault(lane[0], []).append(lane)
            infos = []
            for queue in sorted(lanes):
                totals = _total(lanes[queue])
                if queue in paused or any(totals):
                    counts = await self._shown(turn, queue, totals)
                    oldest = min((lane[7] for lane in lanes[queue] if lane[7] is not None), default=None)
                    infos.append(QueueInfo(queue, counts, queue in paused, oldest))
        return infos

    async def _shown(self, turn: Turn, queue: str | None, totals: _Totals) -> Counts:
        if max(totals) <= EXACT_COUNT:
            self._full.pop(queue, None)
            return _counts(totals, exact=True)
        now = self._clock.monotonic()
        taken, full = self._full.get(queue, (None, totals))
        if taken is None or abs(now - taken) >= COUNT_AGE:
            full = _total(await turn.fetch(_COUNT, turn.told, queue, None))
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


def _total(lanes: Iterable[Any]) -> _Totals:
    totals = [0] * 6
    for lane in lanes:
        for place in range(6):
            totals[place] += lane[1 + place]
    return totals
