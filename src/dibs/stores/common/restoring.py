"""Restoring: whole jobs as another store has them, what a row needs to know of them, and whose names are taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from dibs.domain.audit import check_job
from dibs.domain.errors import WrongState
from dibs.domain.job import NEVER, Status
from dibs.stores.common.rows import TermsWriter, encode_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dibs.domain.job import Event, Job
    from dibs.stores.common.naming import LaneKey

Found = tuple[str, "Job"]
"""What a job was found by (id, key or unique), and the job."""


class Whole(NamedTuple):
    """A job that no one holds, and its log."""

    job: Job
    events: Sequence[Event]

    @property
    def lane(self) -> LaneKey:
        """Its queue, task and priority."""
        return self.job.queue, self.job.task, self.job.priority

    @property
    def unique_key(self) -> str | None:
        """The unique key that it takes: a job that has ended takes none."""
        return None if self.job.status.finished else self.job.unique_key

    @property
    def first_due(self) -> int:
        """When it was first due, as its first event tells."""
        return self.events[0].due_us

    @property
    def waits_for(self) -> int:
        """When it is due, if it waits at all."""
        return self.job.due_us if self.job.status is Status.PENDING else NEVER

    @property
    def expires(self) -> int | None:
        """When it may be pruned; none unless it has ended."""
        job = self.job
        return job.completed_us + job.keep.after(job.status) if job.completed_us is not None else None

    @property
    def latest(self) -> int:
        """When anything last happened to it."""
        return max(self.job.updated_us, self.events[-1].at_us)


def whole(items: Iterable[tuple[Job, Sequence[Event]]]) -> list[Whole]:
    """See that jobs can be restored: no one holds them, and their logs lead to what they are.

    A claim is not restored, for its holder does not know of this store; and a log is told from its second event on in
    most stores, so one that is broken would come out as another.
    """
    found = [Whole(job, events) for job, events in items]
    for job, events in found:
        if job.status is Status.CLAIMED:
            raise WrongState(
                f"the job {job.id!r} is claimed by {job.worker_id}, and a claim cannot be restored",
                hint="Let its worker end it, or its lease run out.",
            )
        if flaw := check_job(job, events):
            raise WrongState(
                f"the job {job.id!r} cannot be restored: {flaw.sentence}", hint="`dibs verify` shows more."
            )
    return found


def names(items: Sequence[Whole]) -> tuple[list[str], list[str], list[str]]:
    """Name the ids, the idempotency keys and the unique keys that jobs take."""
    return (
        [job.id for job, _ in items],
        [job.idempotency_key for job, _ in items if job.idempotency_key is not None],
        [item.unique_key for item in items if item.unique_key is not None],
    )


def latest(items: Iterable[Whole]) -> int:
    """Say what the store's clock may not be before."""
    return max(item.latest for item in items)


def columns(items: Iterable[Whole], lanes: Mapping[LaneKey, int]) -> list[tuple[Any, ...]]:
    """Make rows of ``restore``."""
    terms = TermsWriter()
    return [
        (
            lanes[item.lane], job.id, job.status, job.due_us, item.first_due, job.attempts, job.max_attempts, job.fence,
            job.events, job.created_us, job.updated_us, job.terms.lease_us, job.keep.completed, job.worker_id,
            job.claimed_us, job.lease_expires_us, job.claim_lease_us, job.settled_as, job.completed_us, item.expires,
            job.progress, job.progress_note, job.idempotency_key, job.unique_key, job.batch_id,
            terms.encode(job.terms, job.keep), job.params_json, encode_error(job.error), job.result_json,
        )
        for item in items
        for job in (item.job,)
    ]  # fmt: skip


class Turn(Protocol):
    """What is told when it has been committed."""

    returned: list[tuple[int, int]]
    news: set[tuple[str, str]]


def announce(turn: Turn, new: Iterable[Whole], lanes: Mapping[LaneKey, int]) -> None:
    """Have it told what waits now. It comes behind the place up to which its lane may be known to be empty."""
    for item in new:
        if not item.job.status.finished:
            turn.returned.append((lanes[item.lane], item.job.due_us))
            turn.news.add((item.job.queue, item.job.task))


def sift(items: Sequence[Whole], found: Iterable[Found]) -> tuple[list[Whole], list[Job | None]]:
    """Tell those that are new from those whose id or key another job has, and answer each with that job."""
    by: dict[str, dict[str | None, Job]] = {"id": {}, "key": {}, "unique": {}}
    for kind, job in found:
        by[kind][{"id": job.id, "key": job.idempotency_key, "unique": job.unique_key}[kind]] = job
    new: list[Whole] = []
    answers: list[Job | None] = []
    for item in items:
        taken = (("id", item.job.id), ("key", item.job.idempotency_key), ("unique", item.unique_key))
        holder = next((by[kind][name] for kind, name in taken if name is not None and name in by[kind]), None)
        answers.append(holder)
        if holder is None:
            new.append(item)
            for kind, name in taken:
                by[kind][name] = item.job
    return new, answers
