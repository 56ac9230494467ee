"""What is answered when it went well."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from dibs.domain.job import Status


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
    claim_lease_seconds: float | None
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


class ChangedMany(Answer, frozen=True, kw_only=True):
    """What became of several jobs: ``refused`` were in another state, ``conflicts`` have their unique key taken."""

    matched: int
    changed: int
    repeated: int
    refused: int
    missing: int
    conflicts: int
    dry_run: bool


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
    due_at: datetime | None
    lease_expires_at: datetime | None
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


class Count(Struct, frozen=True, kw_only=True):
    """Jobs by state; ``exact`` unless one has more than 10,000. Pending ones are due, scheduled ones are not yet."""

    pending: int
    scheduled: int
    claimed: int
    completed: int
    failed: int
    cancelled: int
    exact: bool


class Stats(Answer, frozen=True, kw_only=True):
    """Jobs by state, derived from the jobs themselves."""

    queue: str | None
    counts: Count


class Rate(Struct, frozen=True, kw_only=True):
    """How fast a queue is worked off."""

    claimed_per_minute: int


class Queue(Struct, frozen=True, kw_only=True):
    """One queue at a glance."""

    queue: str
    paused: bool
    counts: Count
    oldest_due_at: datetime | None
    oldest_due_seconds: float | UnsetType | None = UNSET  # ago; not in a stream of events, where it always changes
    rates: Rate | UnsetType = UNSET  # as oldest_due_seconds


class Queues(Answer, frozen=True, kw_only=True):
    """The queues that have jobs or are paused, by name."""

    queues: list[Queue]


class Switched(Answer, frozen=True, kw_only=True):
    """A queue that was paused or resumed."""

    queue: str
    paused: bool
    message: str


class Found(Struct, frozen=True, kw_only=True):
    """A document. ``version`` grows with each write; 0: it was removed."""

    name: str
    version: int
    value: bytes
    updated_at: datetime
    expires_at: datetime | None


class Documents(Answer, frozen=True, kw_only=True):
    """The documents that were asked for, by name."""

    documents: list[Found]


class Put(Answer, frozen=True, kw_only=True):
    """The document that was written; null if its version was not the expected one."""

    document: Found | None


class Broken(Struct, frozen=True, kw_only=True):
    """A promise that a job's log breaks: by the event ``seq``, if it is one, with those around it."""

    promise: int
    sentence: str
    job_id: str
    seq: int | None
    neighbours: list[LogEntry]


class Verified(Answer, frozen=True, kw_only=True):
    """What was looked at, and what was found wrong."""

    ok: bool
    jobs: int
    events: int
    pruned: int
    broken: int
    violations: list[Broken]


class Health(Struct, frozen=True, kw_only=True):
    """How the server is."""

    status: Literal["ok", "ready"]
