"""From the domain to the wire: how jobs, events, queues and workers look there."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Raw

from dibs.domain.job import time_of
from dibs.domain.retry import SECOND, micros
from dibs.wire.answered import (
    Backoff,
    Broken,
    Count,
    Failure,
    Found,
    LogEntry,
    Queue,
    Rate,
    Retention,
    Task,
    Verified,
    Worker,
)

if TYPE_CHECKING:
    from dibs.domain import retry as domain
    from dibs.domain.audit import Report
    from dibs.domain.job import Counts, Document, Event, Job, Keep, QueueInfo, WorkerInfo


@lru_cache(maxsize=1024)  # jobs of one task share them
def _retry(retry: domain.Backoff) -> Backoff:
    return Backoff(base=micros(retry.base) / SECOND, cap=micros(retry.cap) / SECOND)


@lru_cache(maxsize=1024)
def _retention(keep: Keep) -> Retention:
    return Retention(completed=keep.completed / SECOND, failed=keep.failed / SECOND, cancelled=keep.cancelled / SECOND)


def task_of(job: Job, *, token: bool = False, duplicate: bool = False) -> Task:
    """Show a job: with its lease token only to the one who just claimed it."""
    terms, error = job.terms, job.error
    return Task(
        id=job.id,
        task_type=job.task,
        queue=job.queue,
        status=job.status,
        params=Raw(job.params_json),
        priority=job.priority,
        attempts=job.attempts,
        max_attempts=job.max_attempts,
        fence=job.fence,
        worker_id=job.worker_id,
        claimed_at=job.claimed_at,
        lease_expires_at=job.lease_expires_at,
        scheduled_at=job.scheduled_at,
        created_at=job.created_at,
        updated_at=job.updated_at,
        completed_at=job.completed_at,
        result=Raw(job.result_json or b"null"),
        error=None
        if error is None
        else Failure(message=error.message, kind=error.kind, code=error.code, traceback=error.traceback),
        progress=job.progress,
        progress_note=job.progress_note,
        idempotency_key=job.idempotency_key,
        unique_key=job.unique_key,
        batch_id=job.batch_id,
        tags=terms.tags,
        trace=terms.trace,
        retry=_retry(terms.retry),
        retention=_retention(job.keep),
        timeout_seconds=None if terms.timeout_us is None else terms.timeout_us / SECOND,
        lease_seconds=terms.lease_us / SECOND,
        claim_lease_seconds=None if job.claim_lease_us is None else job.claim_lease_us / SECOND,
        lease_token=job.lease_token if token else UNSET,
        was_duplicate=job.was_duplicate if duplicate else UNSET,
    )


def log_entry(event: Event) -> LogEntry:
    """Show one event."""
    return LogEntry(
        seq=event.seq,
        event=event.event.value,
        from_=event.from_,
        to=event.to,
        worker_id=event.worker_id,
        actor=event.actor,
        fence=event.fence,
        attempts=event.attempts,
        due_at=time_of(event.due_us),
        lease_expires_at=time_of(event.lease_expires_us),
        at=event.at,
        note=event.note,
    )


def worker_of(info: WorkerInfo) -> Worker:
    """Show one worker."""
    status: Any = info.status
    return Worker(
        worker_id=info.worker_id,
        status=status,
        last_seen_at=info.last_seen_at,
        metadata=info.metadata,
        active_tasks=info.active_tasks,
    )


def count_of(counts: Counts) -> Count:
    """Show how many jobs there are in each state."""
    return Count(
        pending=counts.pending,
        scheduled=counts.scheduled,
        claimed=counts.claimed,
        completed=counts.completed,
        failed=counts.failed,
        cancelled=counts.cancelled,
        exact=counts.exact,
    )


def queue_of(info: QueueInfo, now: int | None = None) -> Queue:
    """Show one queue; with the age of its oldest due job and how fast it is worked off, if it is told the time."""
    oldest = info.oldest_due_us
    late = None if oldest is None or now is None else max(0, now - oldest) / SECOND
    return Queue(
        queue=info.queue,
        paused=info.paused,
        counts=count_of(info.counts),
        oldest_due_at=time_of(oldest),
        oldest_due_seconds=UNSET if now is None else late,
        rates=UNSET if now is None else Rate(claimed_per_minute=info.claimed_per_minute),
    )


def found_of(document: Document) -> Found:
    """Show one document."""
    updated = time_of(document.updated_us)
    assert updated is not None  # noqa: S101  # for the type checker
    return Found(
        name=document.name,
        version=document.version,
        value=document.value,
        updated_at=updated,
        expires_at=time_of(document.expires_us),
    )


def verified_of(report: Report) -> Verified:
    """Show what a store's log has proven, or has not."""
    return Verified(
        ok=report.ok,
        jobs=report.jobs,
        events=report.events,
        pruned=report.pruned,
        broken=report.broken,
        violations=[
            Broken(
                promise=violation.promise,
                sentence=violation.sentence,
                job_id=violation.job_id,
                seq=None if violation.event is None else violation.event.seq,
                neighbours=[log_entry(event) for event in violation.neighbours],
            )
            for violation in report.violations
        ],
    )
