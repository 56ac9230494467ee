"""Which queues a worker of several, with weights, asks for how many jobs.

Each queue has a time of its own, which a job of it moves on by one over its weight, and the queue that is furthest
behind has the next place: so the jobs that are begun are as the weights, however many places are dealt at once, and no
queue waits for another to be empty. What an empty queue does not use is the others', and is not saved up: its time goes
with theirs.
"""

from __future__ import annotations

from collections import Counter
from heapq import heapify, heapreplace
from typing import TYPE_CHECKING

from dibs.domain import checks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dibs.clock import Clock
    from dibs.domain.errors import Problem
    from dibs.domain.job import Job

MOST = 100
"""The largest weight. A queue that is to have less than a hundredth has a worker of its own, or none."""
REST = 0.1
"""Seconds for which a queue that was empty is not asked for by itself, while others have jobs."""


class Shares:
    """Deals places to queues by their weights."""

    def __init__(self, weights: Mapping[str, int], clock: Clock) -> None:
        self._clock = clock
        self._steps = {queue: 1 / weight for queue, weight in weights.items()}
        self._times = dict.fromkeys(weights, 0.0)
        self._empty: dict[str, float] = {}  # until when each of these rests

    def deal(self, places: int) -> dict[str, int]:
        """Say of which queues to ask for how many jobs; of none if all were empty a moment ago."""
        now = self._clock.monotonic()
        self._empty = {queue: until for queue, until in self._empty.items() if until > now}
        waiting = [(time, order, queue) for order, (queue, time) in enumerate(self._times.items())]
        waiting = [one for one in waiting if one[2] not in self._empty]
        heapify(waiting)
        dealt: Counter[str] = Counter()
        for _ in range(places if waiting else 0):
            time, order, queue = waiting[0]
            dealt[queue] += 1
            heapreplace(waiting, (time + self._steps[queue], order, queue))
        return dict(dealt)

    def took(self, jobs: Sequence[Job], dealt: Mapping[str, int] | None = None) -> None:
        """Hear which jobs there were, of those queues that were asked for so many each, or of all together."""
        found = Counter(job.queue for job in jobs)
        for queue, number in found.items():
            self._times[queue] += number * self._steps[queue]
            self._empty.pop(queue, None)
        until = self._clock.monotonic() + REST
        self._empty |= {queue: until for queue, asked in (dealt or {}).items() if found[queue] < asked}
        others = [time for queue, time in self._times.items() if queue not in self._empty]
        for queue in self._empty if others else ():
            self._times[queue] = max(self._times[queue], min(others))


def check_weights(weights: Mapping[str, int]) -> list[Problem]:
    """List what is wrong with queues and their weights."""
    problems = checks.check_names("queues", list(weights))
    for queue, weight in weights.items():
        problems += checks.check_integer(f"queues[{queue!r}]", weight, 1, MOST)
    return problems
