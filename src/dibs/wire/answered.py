"""What is answered when it went well, and how a job looks there."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from dibs.domain.job import Status
from dibs.domain.retry import SECOND, micros

if TYPE_CHECKING:
    from dibs.domain import retry as domain
    from dibs.domain.job import Event, Job, Keep, WorkerInfo


class Failure(Struct, frozen=True, kw_only=True):
    """Why the last attempt failed."""

    message: str
    kind: str
    code: str | None
    traceback: str | None


class Backoff(Struct, frozen=True, kw_only=True):
    """Back-off in seconds."""

    base: float
    cap: float


class Retention(Struct, frozen=True, kw_only=True):
    """Seconds that the job is kept after each way of ending."""

    completed: float
    failed: float
    cancelled: float


class Task(Struct, frozen=True, kw_only=True):
    """A job. ``lease_token`` is there for its claimer alone."""

    id: str
    task_type: str
    queue: str
    status: Status
    params: Raw
    priority: int
    attempts: int
    max_attempts: int
    fence: int
    worker_id: str | None
    claimed_at: datetime | None
    lease_expires_at: datetime | None
    scheduled_at: datetime | None
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None
    result: Raw
    error: Failure | None
    progress: float | None
    progress_note: str
    idempotency_key: str | None
    unique_key: str | None
    batch_id: str | None
    tags: tuple[str, ...]
    trace: dict[str, str] | None
    retry: Backoff
    retention: Retention
    timeout_seconds: float | None
    lease_seconds: float
    lease_token: str | UnsetType = UNSET
    was_duplicate: bool | UnsetType = UNSET


class Answer(Struct, frozen=True, kw_only=True):
    """The root of what is answered under ``/api`` when it went well."""

    success: Literal[True] = True


class OneTask(Answer, frozen=True, kw_only=True):
    """One job."""

    task: Task


class Enqueued(Answer, frozen=True, kw_only=True):
    """The job that was enqueued, or the one that was there already."""

    task: Task
    was_duplicate: bool
    message: str


class EnqueuedMany(Answer, frozen=True, kw_only=True):
    """The jobs of a batch, in order, each with ``was_duplicate``."""

    tasks: list[Task]
    message: str


class Claimed(Answer, frozen=True, kw_only=True):
    """What was claimed; with ``limit``, all of it is under ``tasks``."""

    task: Task
    tasks: list[Task] | UnsetType = UNSET
    message: str = "Task claimed successfully"


class Settled(Answer, frozen=True, kw_only=True):
    """How a claim ended. ``task`` is null if the job is not kept."""

    task: Task | None
    outcome: Literal["applied", "repeated"]
    will_retry: bool
    message: str


class Kept(Answer, frozen=True, kw_only=True):
    """A claim that holds; ``extended`` is false if another transaction has its row just now."""

    task: Task | None
    extended: bool
    lease_expires_at: datetime | None


class Changed(Answer, frozen=True, kw_only=True):
    """A job that an operator has changed. ``task`` is null if the job is not kept."""

    task: Task | None
    message: str


class Page(Answer, frozen=True, kw_only=True):
    """A page of jobs, and where the next begins."""

    tasks: list[Task]
    next_cursor: str | None


class LogEntry(Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """One event of a job."""

    seq: int
    event: str
    from_: Status | None
    to: Status | None
    worker_id: str | None
    actor: str | None
    fence: int
    attempts: int
    at: datetime
    note: str


class Log(Answer, frozen=True, kw_only=True):
    """What has happened to a job, in order."""

    events: list[LogEntry]


class Explained(Answer, frozen=True, kw_only=True):
    """Why a job is not running now, as a code and in words."""

    code: str
    message: str
    task: Task


class SettleOutcome(Struct, frozen=True, kw_only=True):
    """What became of one ending."""

    id: str
    outcome: Literal["applied", "repeated", "lost"]
    status: Status | None
    will_retry: bool


class SettledMany(Answer, frozen=True, kw_only=True):
    """What became of each ending, in order; and what was claimed, if that was asked for."""

    outcomes: list[SettleOutcome]
    tasks: list[Task] | UnsetType = UNSET


class ExtendOutcome(Struct, frozen=True, kw_only=True):
    """Whether one claim holds; ``busy``: another transaction has its row just now."""

    id: str
    outcome: Literal["applied", "lost", "busy"]


class ExtendedMany(Answer, frozen=True, kw_only=True):
    """Whether each claim holds, in order."""

    outcomes: list[ExtendOutcome]


class Beaten(Answer, frozen=True, kw_only=True):
    """Which claims hold and which are lost, by the id of their job."""

    extended: list[str]
    lost: list[str]
    next_heartbeat_in: float


class Shutdown(Answer, frozen=True, kw_only=True):
    """Which claims were given back and which were lost before, by the id of their job."""

    released: list[str]
    lost: list[str]
    message: str


class Worker(Struct, frozen=True, kw_only=True):
    """One worker."""

    worker_id: str
    status: Literal["active", "stale", "inactive"]
    last_seen_at: datetime
    metadata: dict[str, Any]
    active_tasks: int


class Workers(Answer, frozen=True, kw_only=True):
    """The workers that beat within the last day, and whoever else holds a claim."""

    workers: list[Worker]


class Health(Struct, frozen=True, kw_only=True):
    """How the server is."""

    status: Literal["ok", "ready"]


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
