"""Recent claims: what this process has claimed a moment ago, so that settling it need not read it all again.

Only a shortcut: whether a claim still holds is decided by the row itself, under the write lock.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.domain.job import Job

_MOST = 4096
_MOST_BYTES = 4096  # of params; larger ones are read again


class Recent:
    """Jobs as their claim left them, by id; the oldest are forgotten first."""

    def __init__(self) -> None:
        # Race: event loops add while they make answers, after the commit, and the writer takes. An error there would
        # lose a lease that is already on the disk (test_loops_add_while_the_writer_takes).
        self._lock = threading.Lock()
        self._jobs: dict[str, tuple[int, Job]] = {}

    def add(self, claimed: Iterable[tuple[int, Job]]) -> None:
        """Remember claims, each with its place in the enqueue order."""
        with self._lock:
            for seq, job in claimed:
                if len(job.params_json) <= _MOST_BYTES and job.progress is None:
                    self._jobs.pop(job.id, None)
                    self._jobs[job.id] = (seq, job)
            while len(self._jobs) > _MOST:
                del self._jobs[next(iter(self._jobs))]

    def take(self, ids: Iterable[str]) -> list[tuple[int, Job] | None]:
        """Give what was remembered of each, and forget it."""
        with self._lock:
            return [self._jobs.pop(id, None) for id in ids]
