"""Rows to the domain's words and back. The hottest Python of the store: written out, and it remembers what repeats."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import astuple, force_setattr

from dibs.domain.job import Document, Error, Event, EventName, Job, Keep, Status, Terms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Row = tuple[Any, ...]
"""What apsw hands out: the columns as SQLite stores them."""


class Lane(NamedTuple):
    """What a lane's number stands for."""

    id: int
    queue: str
    task: str
    priority: int


class _Terms(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is stored beside the params: all that was settled at enqueue and that no statement needs to see."""

    terms: Terms
    keep: Keep


_STATUS: dict[str | None, Status] = {status.value: status for status in Status}
_EVENT: dict[str | None, EventName] = {event.value: event for event in EventName}
_terms = msgspec.json.Decoder(_Terms)
_error = msgspec.json.Decoder(Error)
_encode = msgspec.json.Encoder().encode


@lru_cache(maxsize=1024)
def _decode_terms(data: bytes) -> tuple[Terms, Keep]:
    # Most jobs share their terms, byte for byte.
    both = _terms.decode(data)
    return both.terms, both.keep


class TermsWriter:
    """Encodes terms, once for all jobs of a batch that share the same objects."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], bytes] = {}

    def encode(self, terms: Terms, keep: Keep) -> bytes:
        """Encode what ``_decode_terms`` reads. The caller keeps both objects alive while it asks."""
        key = (id(terms), id(keep))
        data = self._seen.get(key)
        if data is None:
            data = self._seen[key] = _encode(_Terms(terms, keep))
        return data


def json_array(values: Sequence[int] | Sequence[str]) -> str:
    """Make the list that ``json_each`` reads."""
    return _encode(values).decode()


def job(row: Row, lanes: Mapping[int, Lane]) -> Job:
    """Make a job, lease token and all, of a row of ``dibs_whole``. Positional: half the price of names."""
    (
        _, lane_id, id, params, status, due, attempts, max_attempts, fence, created, updated, terms_json, worker_id,
        claimed, lease_expires, claim_lease, token, settled_as, idempotency_key, unique_key, batch_id, result, error,
        progress, progress_note, completed, events, _, _,
    ) = row  # fmt: skip
    lane = lanes[lane_id]
    terms, keep = _decode_terms(terms_json)
    return Job(
        id, lane.queue, lane.task, params, lane.priority, _STATUS[status], due, attempts, max_attempts, fence, created,
        updated, terms, keep, worker_id, claimed, lease_expires, claim_lease, token or "", _EVENT.get(settled_as),
        idempotency_key, unique_key, batch_id, result, None if error is None else _error.decode(error), progress,
        progress_note, completed, events,
    )  # fmt: skip


def claimed(row: Row, lanes: Mapping[int, Lane], worker_id: str, token: str, now: int) -> Job:
    """Make a job that was claimed just now, of a row of ``claim_read``."""
    (
        _, lane_id, id, params, due, attempts, max_attempts, fence, created, terms_json, lease, idempotency_key,
        unique_key, batch_id, error, progress, progress_note, events,
    ) = row  # fmt: skip
    lane = lanes[lane_id]
    terms, keep = _decode_terms(terms_json)
    return Job(
        id, lane.queue, lane.task, params, lane.priority, Status.CLAIMED, due, attempts, max_attempts, fence, created,
        now, terms, keep, worker_id, now, now + lease, lease, token, None, idempotency_key, unique_key, batch_id, None,
        None if error is None else _error.decode(error), progress, progress_note, None, events,
    )  # fmt: skip


def strip_token(job: Job) -> Job:
    """Make a job that anyone may see, of one that no one else has seen yet."""
    force_setattr(job, "lease_token", "")
    return job


def shown(found: Sequence[Row], lanes: Mapping[int, Lane]) -> list[Job]:
    """Make jobs for anyone to see: without their lease tokens. Of a list, for making one may look up its lane."""
    return [strip_token(job(row, lanes)) for row in found]


def changed(job: Job, expires: int | None, seq: int) -> Row:
    """Make the bindings of ``write_job``."""
    error = None if job.error is None else _encode(job.error)
    return (
        job.status, job.due_us, job.attempts, job.events, job.updated_us, job.settled_as, job.completed_us,
        expires, job.progress, job.progress_note, error, job.result_json, seq,
    )  # fmt: skip


def logged(event: Event, seq: int) -> Row:
    """Make the bindings of ``write_log``."""
    return (seq, *astuple(event)[1:])


def enqueued(job_id: str, at: int, due: int) -> Event:
    """Make a job's first event, which is not stored."""
    return Event(job_id, 1, EventName.ENQUEUED, None, Status.PENDING, None, None, 0, 0, due, None, at)


def event(job_id: str, row: Row) -> Event:
    """Make an event of what follows the job in a row of the log."""
    _, n, name, before, after, worker_id, actor, fence, attempts, due, lease_expires, at, note = row
    return Event(
        job_id, n, _EVENT[name], _STATUS.get(before), _STATUS.get(after), worker_id, actor, fence, attempts, due,
        lease_expires, at, note,
    )  # fmt: skip


def buried(event: Event) -> Row:
    """Make the bindings of ``tombstone_add``."""
    return (
        event.job_id, event.seq, event.from_, event.actor, event.fence, event.attempts, event.due_us, event.at_us,
        event.note,
    )  # fmt: skip


def tombstone(row: Row) -> Event:
    """Make the last event of a pruned job."""
    id, n, before, actor, fence, attempts, due, at, note = row
    return Event(
        id, n, EventName.PRUNED, _STATUS.get(before), None, None, actor, fence, attempts, due, None, at, note
    )  # fmt: skip


def document(row: Row) -> Document:
    """Make a document."""
    return Document(*row)


_NO_TERMS, _NO_KEEP = Terms(), Keep(0, 0, 0)


def claim(row: Row) -> Job:
    """Make what ``holds`` and ``extend`` look at, of a row of ``extend_find``; the rest is left blank."""
    _, id, status, fence, token, lease_expires, claim_lease, progress, progress_note = row
    return Job(
        id, "", "", b"", 0, _STATUS[status], 0, 0, 1, fence, 0, 0, _NO_TERMS, _NO_KEEP,
        lease_expires_us=lease_expires, claim_lease_us=claim_lease, lease_token=token or "", progress=progress,
        progress_note=progress_note,
    )  # fmt: skip
