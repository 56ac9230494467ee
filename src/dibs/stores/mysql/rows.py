"""Rows as the server has them, with bytes where names and texts are, to rows as the other stores have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.stores.common import rows

if TYPE_CHECKING:
    from dibs.domain.job import Document, Event, Job
    from dibs.stores.common.rows import Row

_TEXTS = (15, 19, 21, 22, 23)  # worker_id, token, idempotency_key, unique_key, batch_id, all of which may be missing


def whole(row: Row) -> Row:
    """Read a row of ``dibs_whole``."""
    made = list(row)
    made[2], made[3], made[4], made[27] = row[2].decode(), row[3].decode(), row[4].decode(), row[27].decode()
    for place in _TEXTS:
        if row[place] is not None:
            made[place] = row[place].decode()
    return made


def job(row: Row) -> Job:
    """Make a job, lease token and all."""
    return rows.job(whole(row))


def shown(row: Row) -> Job:
    """Make a job that anyone may see: without its lease token."""
    return rows.shown(whole(row))


def event(job_id: str, row: Row) -> Event:
    """Make an event of a row of the log."""
    return rows.event(job_id, (*row[:5], text(row[5]), text(row[6]), *row[7:12], row[12].decode()))


def tombstone(row: Row) -> Event:
    """Make the last event of a pruned job."""
    return rows.tombstone((row[0].decode(), row[1], row[2], text(row[3]), *row[4:8], row[8].decode()))


def document(row: Row) -> Document:
    """Make a document."""
    return rows.document((row[0].decode(), *row[1:]))


def text(value: bytes | None) -> Any:
    """Read a text that may be missing."""
    return None if value is None else value.decode()
