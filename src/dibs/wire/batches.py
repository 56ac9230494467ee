"""Batches on the wire: what is asked, what is answered, and both to and from the domain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from dibs.domain.batch import BatchInfo
from dibs.wire.answered import Answer
from dibs.wire.asked import Asked, NewTask

if TYPE_CHECKING:
    from typing import Any


class Sealing(Asked, frozen=True, kw_only=True):
    """What is to be enqueued when all jobs of a batch have ended."""

    on_end: NewTask


class Sealed(Answer, frozen=True, kw_only=True):
    """A batch whose last job was noted, or enqueued, if all of its jobs had ended."""

    batch_id: str
    message: str


class Looked(Answer, frozen=True, kw_only=True):
    """Batches were looked at, and what has ended was ended."""

    message: str


class Batch(Answer, frozen=True, kw_only=True):
    """How far a batch has come: its jobs by status. Beyond 10,000 jobs it is not exact."""

    batch_id: str
    total: int
    pending: int
    claimed: int
    completed: int
    failed: int
    cancelled: int
    progress: float
    exact: bool


def batch_of(info: BatchInfo) -> Batch:
    """Show how far a batch has come."""
    return Batch(progress=info.progress, **structs.asdict(info))


def batch_info(batch: Batch) -> BatchInfo:
    """Read it."""
    fields: dict[str, Any] = structs.asdict(batch)
    return BatchInfo(**{name: fields[name] for name in BatchInfo.__struct_fields__})
