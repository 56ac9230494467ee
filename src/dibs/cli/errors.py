"""Dead letters that have gone wrong in the same way, put together."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from dibs.cli.output import Cell, Column, Painted, ago, clean
from dibs.domain.job import NEVER, Error, time_of
from dibs.domain.retry import SECOND

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.domain.job import Job

COLUMNS = (
    Column("JOBS", right=True, whole=True),
    Column("TASK"),
    Column("ERROR"),
    Column("LAST", right=True, whole=True),
    Column("FOR EXAMPLE", whole=True),
)
MOST = 1000
"""Groups that are kept apart; messages that are all different must not fill the memory."""

NO_ERROR = Error("", "no error")
OTHERS = Error("", "other errors")

_VARIES = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b|\b\d[\d.,:]*")


class Group(msgspec.Struct, kw_only=True, frozen=True):
    """Jobs of one task with one error, as it is printed; ``message`` and ``example_id`` are those of the newest."""

    task_type: str
    kind: str
    code: str | None
    message: str
    jobs: int
    first_at: datetime | None
    last_at: datetime | None
    example_id: str


@dataclass
class _Tally:
    task: str
    error: Error
    jobs: int = 0
    first_us: int = NEVER
    last_us: int = 0
    created_us: int = 0
    example_id: str = ""

    def add(self, job: Job, error: Error) -> None:
        ended = job.completed_us or job.updated_us
        self.jobs += 1
        self.first_us = min(self.first_us, ended)
        # Of those that ended together the one enqueued last, whichever way they are read.
        if (ended, job.created_us, job.id) >= (self.last_us, self.created_us, self.example_id):
            self.last_us, self.created_us, self.example_id, self.error = ended, job.created_us, job.id, error

    def group(self) -> Group:
        error = self.error
        return Group(
            task_type=self.task,
            kind=error.kind,
            code=error.code,
            message=error.message,
            jobs=self.jobs,
            first_at=time_of(self.first_us),
            last_at=time_of(self.last_us),
            example_id=self.example_id,
        )


def alike(message: str) -> str:
    """Leave out of a message what differs from job to job: numbers, addresses, ids."""
    return _VARIES.sub("#", message)


class Groups:
    """Counts jobs by task and error."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[str, str, str | None, str], _Tally] = {}
        self.jobs = 0

    def add(self, jobs: Iterable[Job]) -> None:
        """Count some more."""
        for job in jobs:
            self.jobs += 1
            error = job.error or NO_ERROR
            key = (job.task, error.kind, error.code, alike(error.message))
            if key not in self._tallies and len(self._tallies) >= MOST:
                error, key = OTHERS, ("", OTHERS.kind, None, "")
            self._tallies.setdefault(key, _Tally(key[0], error)).add(job, error)

    def biggest(self) -> list[Group]:
        """List them, the largest first."""
        tallies = sorted(self._tallies.values(), key=lambda tally: (-tally.jobs, tally.task, tally.error.kind))
        return [tally.group() for tally in tallies]


def row(group: Group, now: int) -> list[Cell]:
    """Show one group."""
    code = f" [{group.code}]" if group.code else ""
    error = f"{group.kind}{code}: {group.message}" if group.message else f"{group.kind}{code}"
    last = None if group.last_at is None else int(group.last_at.timestamp() * SECOND)
    return [Painted(f"{group.jobs:,}", "red"), group.task_type, clean(error), ago(last, now), group.example_id]
