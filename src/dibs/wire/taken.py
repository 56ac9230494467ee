"""From what a client sends to what the broker takes; shared by the server and the command line."""

from __future__ import annotations

from dibs.domain.job import Retention
from dibs.domain.newjob import NewJob
from dibs.domain.retry import Backoff
from dibs.wire.asked import NewTask, Retain


def new_job_of(task: NewTask) -> NewJob:
    """Take a job that is to be enqueued; its values are checked later, by the broker."""
    retry = task.retry
    return NewJob(
        task.task_type,
        task.params,
        id=task.id,
        queue=task.queue,
        priority=task.priority,
        delay=task.delay_seconds,
        scheduled_at=task.scheduled_at,
        max_attempts=task.max_attempts,
        retry=None if retry is None else Backoff(retry.base, retry.cap),
        timeout=task.timeout_seconds,
        lease=task.lease_seconds,
        idempotency_key=task.idempotency_key,
        unique=task.unique,
        unique_key=task.unique_key,
        batch=task.batch_id,
        tags=task.tags,
        retention=_kept(task.retention),
        trace=task.trace,
    )


def _kept(asked: float | Retain | None) -> Retention | float | None:
    if not isinstance(asked, Retain):
        return asked
    return Retention(completed=asked.completed, cancelled=asked.cancelled, failed=asked.failed, keyed=asked.keyed)
