"""Counts: from the jobs themselves, exact and fresh up to 10,000 a state; beyond, a full count that is kept a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.domain.job import Counts, QueueInfo, Status
from dibs.domain.retry import SECOND
from dibs.store import COUNT_AGE, EXACT_COUNT
from dibs.stores.sqlite.statements import statement

if TYPE_CHECKING:
    from dibs.clock import Clock
    from dibs.stores.sqlite.moment import Moment

_LANES = statement("count_lanes")
_LANES_OF = statement("count_lanes_of")
_PENDING = statement("count_pending")
_CLAIMED = statement("count_claimed")
_FINISHED = statement("count_finished")

_ENDS = (Status.COMPLETED.value, Status.FAILED.value, Status.CANCELLED.value)
_NO_LIMIT = -1

_Totals = list[int]  # pending, scheduled, claimed, completed, failed, cancelled


class Counter:
    """Counts for one process, which remembers the large numbers for up to a minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._full: dict[str | None, tuple[int, _Totals]] = {}

    def counts(self, moment: Moment, queue: str | None) -> Counts:
        """Count the jobs of one queue or of all."""
        sql, bindings = (_LANES, ()) if queue is None else (_LANES_OF, (queue,))
        lanes = [id for id, _ in moment.rows(sql, *bindings)]
        return self._count(moment, queue, lanes, _claimed(moment))[0]

    def queues(self, moment: Moment) -> list[QueueInfo]:
        """Describe every queue that has jobs or is paused."""
        lanes: dict[str, list[int]] = {name: [] for name in moment.paused}
        for id, queue in moment.rows(_LANES):
            lanes.setdefault(queue, []).append(id)
        claimed = _claimed(moment)
        infos = []
        for queue in sorted(lanes):
            counts, oldest = self._count(moment, queue, lanes[queue], claimed)
            paused = queue in moment.paused
            if paused or any((counts.unfinished, counts.completed, counts.failed, counts.cancelled)):
                infos.append(QueueInfo(queue, counts, paused, oldest))
        return infos

    def _count(
        self, moment: Moment, queue: str | None, lanes: list[int], claimed: dict[int, int]
    ) -> tuple[Counts, int | None]:
        totals, oldest = _total(moment, lanes, claimed, EXACT_COUNT + 1)
        if max(totals) <= EXACT_COUNT:
            self._full.pop(queue, None)
            return _shown(totals, exact=True), oldest
        now = self._clock.now()
        taken, full = self._full.get(queue, (None, totals))
        if taken is None or abs(now - taken) >= COUNT_AGE * SECOND:
            full = _total(moment, lanes, claimed, _NO_LIMIT)[0]
            self._full[queue] = (now, full)
        # What is small is fresh even so; what is large is at least as large as was just seen.
        shown = [
            fresh if fresh <= EXACT_COUNT else max(old, EXACT_COUNT + 1)
            for fresh, old in zip(totals, full, strict=True)
        ]
        return _shown(shown, exact=False), oldest


def _shown(totals: _Totals, *, exact: bool) -> Counts:
    pending, scheduled, claimed, completed, failed, cancelled = totals
    return Counts(pending, scheduled, claimed, completed, failed, cancelled, exact=exact)


def _claimed(moment: Moment) -> dict[int, int]:
    return dict(moment.rows(_CLAIMED))


def _total(moment: Moment, lanes: list[int], claimed: dict[int, int], limit: int) -> tuple[_Totals, int | None]:
    totals = [0] * 6
    oldest: int | None = None
    for lane in lanes:
        [(due, later, first)] = moment.rows(_PENDING, lane, moment.now, limit)
        ended = [moment.rows(_FINISHED, lane, status, limit)[0][0] for status in _ENDS]
        for place, number in enumerate((due, later, claimed.get(lane, 0), *ended)):
            totals[place] += number
        if first is not None and (oldest is None or first < oldest):
            oldest = first
    return totals, oldest
