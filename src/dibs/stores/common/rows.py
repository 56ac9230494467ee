"""Rows to the domain's words and back: written out, and it remembers what repeats."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import force_setattr

from dibs.domain.job import Document, Error, Event, EventName, Job, Keep, Status, Terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Row = Any  # what a driver hands out: a sequence of columns


class _Terms(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is stored beside the params: all that was settled at enqueue and that no statement needs to see."""

    terms: Terms
    keep: Keep


STATUS: dict[str | None, Status] = {status.value: status for status in Status}
EVENT: dict[str | None, EventName] = {event.value: event for event in EventName}
_terms = msgspec.json.Decoder(_Terms)
_error = msgspec.json.Decoder(Error)
_encode = msgspec.json.Encoder().encode


@lru_cache(maxsize=1024)
def decode_terms(data: bytes) -> tuple[Terms, Keep]:
    """Read what ``encode_terms`` has written. Most jobs share their terms, byte for byte."""
    both = _terms.decode(data)
    return both.terms, both.keep


class TermsWriter:
    """Encodes terms, once for all jobs of a batch that share the same objects."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], bytes] = {}

    def encode(self, terms: Terms, keep: Keep) -> bytes:
        """Encode what ``decode_terms`` reads. The caller keeps both objects alive while it asks."""
        key = (id(terms), id(keep))
        data = self._seen.get(key)
        if data is None:
            data = self._seen[key] = _encode(_Terms(terms, keep))
        return data


def encode_error(error: Error | None) -> bytes | None:
    """Write why an attempt failed."""
    return None if error is None else _encode(error)


def decode_error(error: bytes | None) -> Error | None:
    """Read what ``encode_error`` has written."""
    return None if error is None else _error.decode(error)


def job(row: Row) -> Job:
    """Make a job, lease token and all, of the columns of ``dibs_whole``."""
    (
        _, _, id, queue, task, params, priority, status, due, attempts, max_attempts, fence, created, updated,
        terms_json, worker_id, claimed, lease_expires, claim_lease, token, settled_as, idempotency_key, unique_key,
        batch_id, result, error, progress, progress_note, completed, events, _, _,
    ) = row  # fmt: skip
    terms, keep = decode_terms(terms_json)
    return Job(
        id, queue, task, params, priority, STATUS[status], due, attempts, max_attempts, fence, created, updated, terms,
        keep, worker_id, claimed, lease_expires, claim_lease, token or "", EVENT.get(settled_as), idempotency_key,
        unique_key, batch_id, result, decode_error(error), progress, progress_note, completed, events,
    )  # fmt: skip


def claimed(row: Row, token: str) -> Job:
    """Make a job that was claimed just now, of a row of ``claim`` or ``claim_take``."""
    (
        _, _, _, _, _, _, id, queue, task, params, priority, due, attempts, max_attempts, fence, created, terms_json,
        now, lease, idempotency_key, unique_key, batch_id, error, progress, progress_note, events, worker_id,
        lease_expires, *_,
    ) = row  # fmt: skip
    terms, keep = decode_terms(terms_json)
    return Job(
        id, queue, task, params, priority, Status.CLAIMED, due, attempts, max_attempts, fence, created, now, terms,
        keep, worker_id, now, lease_expires, lease, token, None, idempotency_key, unique_key, batch_id, None,
        decode_error(error), progress, progress_note, None, events,
    )  # fmt: skip


def anonymous(job: Job) -> Job:
    """Take the lease token out of a job that no one else has seen yet: anyone may see it then."""
    force_setattr(job, "lease_token", "")
    return job


def shown(row: Row) -> Job:
    """Make a job that anyone may see."""
    return anonymous(job(row))


def enqueued(job_id: str, at: int, due: int) -> Event:
    """Make a job's first event, which is not stored."""
    return Event(job_id, 1, EventName.ENQUEUED, None, Status.PENDING, None, None, 0, 0, due, None, at)


def event(job_id: str, row: Row) -> Event:
    """Make an event of a row of the log."""
    _, n, name, before, after, worker_id, actor, fence, attempts, due, lease_expires, at, note = row
    return Event(
        job_id, n, EVENT[name], STATUS.get(before), STATUS.get(after), worker_id, actor, fence, attempts, due,
        lease_expires, at, note,
    )  # fmt: skip


def buried(event: Event) -> tuple[Any, ...]:
    """Make a row of ``tombstone_add``."""
    return (
        event.job_id, event.seq, event.from_, event.actor, event.fence, event.attempts, event.due_us, event.at_us,
        event.note,
    )  # fmt: skip


def tombstone(row: Row) -> Event:
    """Make the last event of a pruned job."""
    id, n, before, actor, fence, attempts, due, at, note = row
    return Event(
        id, n, EventName.PRUNED, STATUS.get(before), None, None, actor, fence, attempts, due, None, at, note
    )  # fmt: skip


def document(row: Row) -> Document:
    """Make a document."""
    return Document(*row)


def columns(found: Sequence[Sequence[Any]], number: int) -> Iterable[list[Any]]:
    """Turn rows into the arrays that ``unnest`` reads: as many as there are columns, even of no rows."""
    return ([row[place] for row in found] for place in range(number))
