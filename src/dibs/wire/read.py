"""From the wire back to the domain: what a client makes of what a server shows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from dibs.domain.audit import Report, Violation
from dibs.domain.job import (
    NEVER,
    Counts,
    Document,
    Error,
    Event,
    EventName,
    Job,
    Keep,
    QueueInfo,
    Terms,
    WorkerInfo,
)
from dibs.domain.retry import Backoff, micros

if TYPE_CHECKING:
    from dibs.wire.answered import Backoff as Pauses
    from dibs.wire.answered import Broken, Count, Found, LogEntry, Queue, Retention, Task, Verified, Worker

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def us_of(time: datetime) -> int:
    """Read a time as microseconds."""
    return (time - _EPOCH) // _MICROSECOND


def _us(time: datetime | None) -> int | None:
    return None if time is None else us_of(time)


def _due(time: datetime | None) -> int:
    return NEVER if time is None else us_of(time)


def _micros(seconds: float | None) -> int | None:
    return None if seconds is None else micros(seconds)


@lru_cache(maxsize=1024)  # jobs of one task share them
def _keep(retention: Retention) -> Keep:
    return Keep(micros(retention.completed), micros(retention.failed), micros(retention.cancelled))


@lru_cache(maxsize=1024)
def _terms(retry: Pauses, timeout: float | None, lease: float, tags: tuple[str, ...]) -> Terms:
    return Terms(retry=Backoff(retry.base, retry.cap), timeout_us=_micros(timeout), lease_us=micros(lease), tags=tags)


def job_of(task: Task) -> Job:
    """Read a job. What a server does not show of it (how its last claim ended, how many events it has) is left open."""
    error = task.error
    result = bytes(task.result)
    terms = _terms(task.retry, task.timeout_seconds, task.lease_seconds, task.tags)
    return Job(
        task.id,
        task.queue,
        task.task_type,
        bytes(task.params),
        task.priority,
        task.status,
        _due(task.scheduled_at),
        task.attempts,
        task.max_attempts,
        task.fence,
        us_of(task.created_at),
        us_of(task.updated_at),
        terms if task.trace is None else msgspec.structs.replace(terms, trace=task.trace),
        _keep(task.retention),
        worker_id=task.worker_id,
        claimed_us=_us(task.claimed_at),
        lease_expires_us=_us(task.lease_expires_at),
        claim_lease_us=_micros(task.claim_lease_seconds),
        lease_token="" if task.lease_token is UNSET else task.lease_token,
        idempotency_key=task.idempotency_key,
        unique_key=task.unique_key,
        batch_id=task.batch_id,
        result_json=None if result == b"null" else result,
        error=None if error is None else Error(error.message, error.kind, error.code, error.traceback),
        progress=task.progress,
        progress_note=task.progress_note,
        completed_us=_us(task.completed_at),
        was_duplicate=task.was_duplicate is True,
    )


def event_of(job_id: str, entry: LogEntry) -> Event:
    """Read one event."""
    return Event(
        job_id,
        entry.seq,
        EventName(entry.event),
        entry.from_,
        entry.to,
        entry.worker_id,
        entry.actor,
        entry.fence,
        entry.attempts,
        _due(entry.due_at),
        _us(entry.lease_expires_at),
        us_of(entry.at),
        entry.note,
    )


def counts_of(count: Count) -> Counts:
    """Read how many jobs there are in each state."""
    return Counts(
        count.pending,
        count.scheduled,
        count.claimed,
        count.completed,
        count.failed,
        count.cancelled,
        exact=count.exact,
    )


def queue_info(queue: Queue) -> QueueInfo:
    """Read one queue."""
    rate = 0 if queue.rates is UNSET else queue.rates.claimed_per_minute
    return QueueInfo(queue.queue, counts_of(queue.counts), queue.paused, _us(queue.oldest_due_at), rate)


def worker_info(worker: Worker) -> WorkerInfo:
    """Read one worker."""
    return WorkerInfo(worker.worker_id, worker.status, us_of(worker.last_seen_at), worker.active_tasks, worker.metadata)


def document_of(found: Found) -> Document:
    """Read one document."""
    return Document(found.name, found.version, found.value, us_of(found.updated_at), _us(found.expires_at))


def report_of(verified: Verified) -> Report:
    """Read what was proven."""
    violations = tuple(map(_violation, verified.violations))
    return Report(verified.jobs, verified.events, verified.pruned, violations, verified.broken)


def _violation(broken: Broken) -> Violation:
    neighbours = tuple(event_of(broken.job_id, entry) for entry in broken.neighbours)
    event: Any = next((event for event in neighbours if event.seq == broken.seq), None)
    return Violation(broken.promise, broken.sentence, broken.job_id, event, neighbours)
