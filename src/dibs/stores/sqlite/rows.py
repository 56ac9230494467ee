"""Rows to the domain's words and back. The hottest Python of the store: written out, and it remembers what repeats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import astuple

from dibs.domain.job import Event, Job, Keep, Status, Terms
from dibs.stores.common.rows import EVENT, STATUS, anonymous, decode_error, decode_terms, encode_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Row = tuple[Any, ...]
"""What apsw hands out: the columns as SQLite stores them."""


_encode = msgspec.json.Encoder().encode


class Lane(NamedTuple):
    """What a lane's number stands for."""

    id: int
    queue: str
    task: str
    priority: int


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
    terms, keep = decode_terms(terms_json)
    return Job(
        id, lane.queue, lane.task, params, lane.priority, STATUS[status], due, attempts, max_attempts, fence, created,
        updated, terms, keep, worker_id, claimed, lease_expires, claim_lease, token or "", EVENT.get(settled_as),
        idempotency_key, unique_key, batch_id, result, decode_error(error), progress,
        progress_note, completed, events,
    )  # fmt: skip


def claimed(row: Row, lanes: Mapping[int, Lane], worker_id: str, token: str, now: int) -> Job:
    """Make a job that was claimed just now, of a row of ``claim_read``."""
    (
        _, lane_id, id, params, due, attempts, max_attempts, fence, created, terms_json, lease, idempotency_key,
        unique_key, batch_id, error, progress, progress_note, events,
    ) = row  # fmt: skip
    lane = lanes[lane_id]
    terms, keep = decode_terms(terms_json)
    return Job(
        id, lane.queue, lane.task, params, lane.priority, Status.CLAIMED, due, attempts, max_attempts, fence, created,
        now, terms, keep, worker_id, now, now + lease, lease, token, None, idempotency_key, unique_key, batch_id, None,
        None if error is None else decode_error(error), progress, progress_note, None, events,
    )  # fmt: skip


def shown(found: Sequence[Row], lanes: Mapping[int, Lane]) -> list[Job]:
    """Make jobs for anyone to see: without their lease tokens. Of a list, for making one may look up its lane."""
    return [anonymous(job(row, lanes)) for row in found]


def changed(job: Job, expires: int | None, seq: int) -> Row:
    """Make the bindings of ``write_job``."""
    return (
        job.status, job.due_us, job.attempts, job.events, job.updated_us, job.settled_as, job.completed_us,
        expires, job.progress, job.progress_note, encode_error(job.error), job.result_json, seq,
    )  # fmt: skip


def logged(event: Event, seq: int) -> Row:
    """Make the bindings of ``write_log``."""
    return (seq, *astuple(event)[1:])


_NO_TERMS, _NO_KEEP = Terms(), Keep(0, 0, 0)


def claim(row: Row) -> Job:
    """Make what ``holds`` and ``extend`` look at, of a row of ``extend_find``; the rest is left blank."""
    _, id, status, fence, token, lease_expires, claim_lease, progress, progress_note = row
    return Job(
        id, "", "", b"", 0, STATUS[status], 0, 0, 1, fence, 0, 0, _NO_TERMS, _NO_KEEP,
        lease_expires_us=lease_expires, claim_lease_us=claim_lease, lease_token=token or "", progress=progress,
        progress_note=progress_note,
    )  # fmt: skip
