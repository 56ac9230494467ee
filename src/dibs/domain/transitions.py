"""Every transition of a job, as pure functions: what is asked becomes a decided write, and that becomes the next state.

A ``Write`` can only be built by the functions below, so a store never sees one that is not legal. A store finds the
job, asks ``judge`` whether the write still holds, and if it does puts down what ``apply`` says, with one event, in one
atomic step. Stores that compare and write on the server (SQL, Lua) do the same there, and the conformance suite holds
them to what is written here.
"""

from __future__ import annotations

import re
from hmac import compare_digest
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from dibs.domain.job import (
    FINISHED,
    UNFINISHED,
    ClaimRequest,
    Draft,
    Error,
    Event,
    EventName,
    Extension,
    Job,
    Outcome,
    Ref,
    Status,
)
from dibs.domain.retry import SECOND

if TYPE_CHECKING:
    from random import Random

# The same verb may be logged under two names: a failure is either retried or final.
SAME_VERB: dict[EventName, frozenset[EventName]] = {
    EventName.COMPLETED: frozenset({EventName.COMPLETED}),
    EventName.RETRIED: frozenset({EventName.RETRIED, EventName.FAILED}),
    EventName.FAILED: frozenset({EventName.RETRIED, EventName.FAILED}),
    EventName.RELEASED: frozenset({EventName.RELEASED}),
}

_COMPLETED, _AS_COMPLETED = EventName.COMPLETED, Status.COMPLETED
_CONTROL = re.compile("[\x00-\x1f\x7f]+")
_NOTE = 200  # characters of an error that are kept in the log, where they outlive the next attempt


class Failure(NamedTuple):
    """How an attempt failed, as its worker tells it."""

    error: Error
    retryable: bool = True
    delay_us: int | None = None  # asked for by the handler; none: the job's own back-off


class Write(msgspec.Struct, frozen=True, gc=False):
    """A decided transition: which job, under which claim if any, and what becomes of it."""

    id: str
    event: EventName
    to: Status | None  # none: gone
    ref: Ref | None = None  # must be the current claim; of an expiry the fence alone, and its lease must have run out
    counts: bool = False  # one more attempt
    delay_us: int | None = None  # due = the store's now + this; none: as it was
    result_json: bytes | None = None
    error: Error | None = None
    actor: str | None = None
    note: str = ""


def complete(ref: Ref, result_json: bytes | None = None) -> Write:
    """End a claim well."""
    # Members by themselves, and values by place: this is made for nearly every job, and names triple its price.
    return Write(ref.id, _COMPLETED, _AS_COMPLETED, ref, True, None, result_json)  # noqa: FBT003


def fail(job: Job, ref: Ref, failure: Failure, random: Random) -> Write:
    """End a claim badly: another attempt after a while, or the dead letter."""
    if not failure.retryable or job.attempts + 1 >= job.max_attempts:
        return _failed(EventName.FAILED, ref, failure.error)
    delay_us = _backoff(job, random) if failure.delay_us is None else failure.delay_us
    return _failed(EventName.RETRIED, ref, failure.error, delay_us)


def expire(job: Job, random: Random) -> Write:
    """Take a claim away whose lease ran out: its worker has crashed, as far as anyone can tell."""
    worker = f"worker {job.worker_id}" if job.worker_id else "the worker"
    error = Error(f"lease ran out: {worker} did not extend or settle it in time", kind="lease_expired")
    ref = Ref(job.id, job.fence, "")
    if job.attempts + 1 >= job.max_attempts:
        return _failed(EventName.EXPIRED, ref, error)
    return _failed(EventName.EXPIRED, ref, error, _backoff(job, random))


def _failed(event: EventName, ref: Ref, error: Error, delay_us: int | None = None) -> Write:
    to = Status.FAILED if delay_us is None else Status.PENDING
    note = _CONTROL.sub(" ", f"{error.kind}: {error.message}"[:_NOTE])
    return Write(ref.id, event, to, ref, counts=True, error=error, delay_us=delay_us, note=note)


def release(ref: Ref, delay_us: int | None = None) -> Write:
    """Give a claim back, as if it had not been made, or for later."""
    return Write(ref.id, EventName.RELEASED, Status.PENDING, ref, delay_us=delay_us)


def cancel(id: str, actor: str | None = None) -> Write:
    """Stop a job that has not ended, whoever holds it."""
    return Write(id, EventName.CANCELLED, Status.CANCELLED, actor=actor)


def redrive(id: str, actor: str | None = None) -> Write:
    """Run a job again that has ended."""
    return Write(id, EventName.REDRIVEN, Status.PENDING, delay_us=0, actor=actor)


def purge(id: str, actor: str | None = None) -> Write:
    """Remove a job that has ended, before its retention time is over."""
    return Write(id, EventName.PRUNED, None, actor=actor)


def _backoff(job: Job, random: Random) -> int:
    return round(job.terms.retry.delay(job.attempts + 1, random) * SECOND)


def judge(job: Job, write: Write, now: int) -> Outcome:
    """Say whether a write still holds for the job as it is. ``job.lease_token`` must be filled in."""
    if write.ref is not None:
        return _judge_claim(job, write, write.ref, now)
    if write.event is EventName.CANCELLED:
        if job.status in UNFINISHED:
            return Outcome.APPLIED
        return Outcome.REPEATED if job.status is Status.CANCELLED else Outcome.LOST
    return Outcome.APPLIED if job.status in FINISHED else Outcome.LOST


def _judge_claim(job: Job, write: Write, ref: Ref, now: int) -> Outcome:
    """Race: a holder that was taken over. The fence decides; the token keeps out whoever guessed or repeats a fence."""
    if job.fence != ref.fence:
        return Outcome.LOST
    if write.event is EventName.EXPIRED:
        # Race: extended since the reaper looked. The lease end is compared again at the moment of writing.
        expired = job.status is Status.CLAIMED and (job.lease_expires_us or 0) <= now
        return Outcome.APPLIED if expired else Outcome.LOST
    if not same_token(job.lease_token, ref.token):
        return Outcome.LOST
    if job.status is Status.CLAIMED:
        return Outcome.APPLIED
    return Outcome.REPEATED if job.settled_as in SAME_VERB[write.event] else Outcome.LOST


def same_token(held: str, given: str) -> bool:
    """Compare two lease tokens, without telling by the time it takes how much of them is alike."""
    if held is given:  # the very object that the claim was made with, in this process
        return bool(held)
    if held.isascii() and given.isascii():  # as all that are made here are
        return bool(held) and compare_digest(held, given)
    return compare_digest(held.encode("utf-8", "surrogatepass"), given.encode("utf-8", "surrogatepass"))


def holds(job: Job, ref: Ref) -> bool:
    """Say whether this is the job's current claim."""
    return job.status is Status.CLAIMED and job.fence == ref.fence and same_token(job.lease_token, ref.token)


def claim(job: Job, request: ClaimRequest, now: int) -> Job:
    """Hand a pending, due job to a claimer."""
    lease_us = request.lease_us or job.terms.lease_us
    return msgspec.structs.replace(
        job,
        status=Status.CLAIMED,
        fence=job.fence + 1,
        worker_id=request.worker_id,
        lease_token=request.token,
        claimed_us=now,
        claim_lease_us=lease_us,
        lease_expires_us=now + lease_us,
        settled_as=None,
        updated_us=now,
        events=job.events + 1,
    )


def extend(job: Job, extension: Extension, now: int) -> Job:
    """Keep a claim for another lease; never shortens it. No event: nothing changed hands."""
    progress = job.progress if extension.progress is None else extension.progress
    return msgspec.structs.replace(
        job,
        lease_expires_us=max(job.lease_expires_us or 0, now + (job.claim_lease_us or 0)),
        updated_us=now,
        progress=progress,
        progress_note=extension.note if extension.progress is not None else job.progress_note,
    )


def apply(job: Job, write: Write, now: int) -> Job:
    """Make the job that an applied write leaves behind; for one that removes it, the job as it was last."""
    status = job.status if write.to is None else write.to
    redriven = write.event is EventName.REDRIVEN
    return msgspec.structs.replace(
        job,
        status=status,
        due_us=job.due_us if write.delay_us is None else now + write.delay_us,
        attempts=0 if redriven else job.attempts + write.counts,
        settled_as=write.event if job.status is Status.CLAIMED else job.settled_as,
        result_json=job.result_json if write.to is None else write.result_json,
        error=None if redriven or status is Status.COMPLETED else write.error or job.error,
        progress=None if redriven else job.progress,
        progress_note="" if redriven else job.progress_note,
        completed_us=(now if write.to else job.completed_us) if status in FINISHED else None,
        updated_us=now,
        events=job.events + 1,
    )


def log(
    before: Job | None, after: Job, event: EventName, now: int, *, actor: str | None = None, note: str = ""
) -> Event:
    """Make the one event that goes with a transition, numbered by the job's own count."""
    claimed = after.status is Status.CLAIMED or (before is not None and before.status is Status.CLAIMED)
    return Event(
        after.id,
        after.events,
        event,
        None if before is None else before.status,
        None if event is EventName.PRUNED else after.status,
        after.worker_id if claimed else None,
        actor,
        after.fence,
        after.attempts,
        after.due_us,
        after.lease_expires_us if claimed else None,
        now,
        note,
    )


def prune(job: Job, now: int) -> Event:
    """Make the event that is left of a finished job whose time is over."""
    return log(job, msgspec.structs.replace(job, events=job.events + 1), EventName.PRUNED, now)


class Identity(NamedTuple):
    """Which job, if any, an enqueue names; and whether what it says fits that job."""

    job: Job | None  # the first job; none: it is a new one
    mismatch: str | None = None  # the field that does not fit


def identify(draft: Draft, by_id: Job | None, by_key: Job | None, by_unique: Job | None) -> Identity:
    """Decide whether an enqueue is new, a duplicate or a mismatch; ``by_unique``: who holds its unique key."""
    named = [(field, job) for field, job in (("id", by_id), ("idempotency_key", by_key)) if job is not None]
    for field, job in named:
        if (job.task, job.queue, job.params_json) != (draft.task, draft.queue, draft.params_json):
            return Identity(job, field)
    if by_unique is not None:
        named.append(("unique_key", by_unique))
    if not named:
        return Identity(None)
    first = named[0][1]
    for field, job in named[1:]:
        if job.id != first.id:
            return Identity(first, field)
    return Identity(first)
