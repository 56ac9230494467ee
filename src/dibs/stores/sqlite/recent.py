"""Recent claims: what this process has claimed a moment ago, so that settling it need not read it all again.

Only a shortcut: whether a claim still holds is decided by the row itself, under the write lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dibs.domain.job import Job

_MOST = 4096
_MOST_BYTES = 4096  # of params; larger ones are read again


class Recent:
    """Jobs as their claim left them, by id; the oldest are forgotten first. Any thread may add, the writer takes."""

    def __init__(self) -> None:
        self._jobs: dict[str, tuple[int, Job]] = {}

    def add(self, seq: int, job: Job) -> None:
        """Remember a claim."""
        if len(job.params_json) <= _MOST_BYTES and job.progress is None:
            self._jobs.pop(job.id, None)
            self._jobs[job.id] = (seq, job)
            if len(self._jobs) > _MOST:
                self._jobs.pop(next(iter(self._jobs), ""), None)

    def take(self, id: str) -> tuple[int, Job] | None:
        """Give what was remembered, and forget it."""
        return self._jobs.pop(id, None)
