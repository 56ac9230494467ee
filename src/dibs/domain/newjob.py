"""What a caller asks to be enqueued, before it is checked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypedDict

import msgspec

from dibs.domain.job import Retention
from dibs.domain.retry import Backoff, Duration


class EnqueueOptions(TypedDict, total=False):
    """The options of one enqueue; whatever is left out, or none, comes from the task, then the queue, then the app."""

    id: str | None
    queue: str | None
    priority: int | str | None
    delay: Duration | None
    scheduled_at: datetime | None
    max_attempts: int | None
    retry: Backoff | None
    timeout: Duration | None
    lease: Duration | None
    retention: Retention | Duration | None
    idempotency_key: str | None
    unique: bool
    unique_key: str | None
    batch: str | None
    tags: Sequence[str]


class NewJob(msgspec.Struct, frozen=True):
    """One job for ``enqueue_many``."""

    task: str
    params: Any = None
    id: str | None = None
    queue: str | None = None
    priority: int | str | None = None
    delay: Duration | None = None
    scheduled_at: datetime | None = None
    max_attempts: int | None = None
    retry: Backoff | None = None
    timeout: Duration | None = None
    lease: Duration | None = None
    retention: Retention | Duration | None = None
    idempotency_key: str | None = None
    unique: bool = False
    unique_key: str | None = None
    batch: str | None = None
    tags: Sequence[str] = ()
    trace: dict[str, str] | None = None
