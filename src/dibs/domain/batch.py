"""Batches: jobs that were enqueued as one, how far they have come, and what is enqueued when they have ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dibs.domain.checks import MAX_KEY, check_text
from dibs.domain.errors import InvalidRequest, Problem
from dibs.domain.job import DAY, Draft, Keep, Status
from dibs.domain.newjob import NewJob
from dibs.domain.retry import micros

MAX_ID = MAX_KEY - 10
"""Characters of a batch's id that something is to be done about: it is part of a key."""
MAX_PARAMS = 64 * 1024
"""Bytes of JSON of the last job's params: a sealed batch is read again and again until it has ended."""
LEAST_KEPT = micros(DAY)
"""How long the last job is kept at the least, and its key with it.

Race: a process finds a batch ended, stands still, and enqueues its last job when others have long done so. The key of
that job tells, for as long as there is that job.
"""
KEPT = micros(90 * DAY)
"""How long a batch is remembered that does not end."""

_NOT_OF_THE_LAST = ("id", "idempotency_key", "batch")


class Sealed(msgspec.Struct, frozen=True):
    """A batch that no more jobs join, as the store keeps it until it has ended."""

    draft: Draft  # the last job


class BatchInfo(msgspec.Struct, frozen=True):
    """How far a batch has come: its jobs by status. Beyond 10,000 jobs it may not be ``exact``."""

    batch_id: str
    total: int
    pending: int
    claimed: int
    completed: int
    failed: int
    cancelled: int
    exact: bool = True

    @property
    def finished(self) -> int:
        """How many have ended, one way or another."""
        return self.completed + self.failed + self.cancelled

    @property
    def progress(self) -> float:
        """The part that has ended, from 0 to 1."""
        return self.finished / self.total if self.total else 1.0

    @property
    def ended(self) -> bool:
        """Whether all of its jobs have ended."""
        return self.exact and self.finished == self.total


def info_of(id: str, counted: Mapping[Status, int], *, exact: bool) -> BatchInfo:
    """Make it of how many jobs there are of each status."""
    numbers = {str(status): counted.get(status, 0) for status in Status}
    return BatchInfo(id, sum(numbers.values()), exact=exact, **numbers)


def check_batch_id(id: Any, *, field: str = "batch_id", most: int = MAX_KEY) -> None:
    """Check the id of a batch."""
    if problems := check_text(field, id, most=most):
        raise InvalidRequest(problems)


def check_last(job: NewJob) -> list[Problem]:
    """List what a batch's last job may not have; the rest is checked as every job."""
    given: Any = job
    return [
        Problem(f"on_end.{field}", "is not for the job that a batch ends with: it is its own")
        for field in _NOT_OF_THE_LAST
        if getattr(given, field) is not None
    ]


def key_of(id: str) -> str:
    """Make the idempotency key of the last job: one for each batch, whoever enqueues it, and however often."""
    return f"batch:{id}:end"


def last_of(draft: Draft, id: str) -> Draft:
    """Make what is kept of the last job, once it was checked: its key, and that it is kept for long enough."""
    keep = Keep(*(max(LEAST_KEPT, each) for each in (draft.keep.completed, draft.keep.failed, draft.keep.cancelled)))
    return msgspec.structs.replace(draft, keep=keep, idempotency_key=key_of(id))
