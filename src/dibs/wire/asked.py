"""What clients send. Unknown fields are refused here; values are checked by the broker, as for every other caller."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from dibs.domain.checks import (
    MAX_ATTEMPTS,
    MAX_DURATION,
    MAX_FENCE,
    MAX_KEY,
    MAX_NAME,
    MAX_PRIORITY,
    MIN_LEASE,
    MIN_PRIORITY,
    PRIORITIES,
)
from dibs.domain.job import Status
from dibs.domain.settings import MAX_BATCH, MAX_CLAIM

MAX_WAIT = 300
"""Seconds that a claim may wait: proxies and clients cut longer ones."""
MAX_LIST = 100
"""Jobs on one page of a list."""

_PLAIN = r"[^\u0000-\u001f\u007f]"
_SOME: dict[str, Any] = {"minItems": 1}

# What the broker checks is said here for the document, and checked by the broker alone.
JobId = Annotated[str, Meta(extra_json_schema={"pattern": "^[A-Za-z0-9_.:-]{1,128}$"})]
Name = Annotated[str, Meta(extra_json_schema={"pattern": "^[A-Za-z0-9_.:/-]{1,128}$"})]
Names = Annotated[list[Name], Meta(extra_json_schema=_SOME)]
WorkerId = Annotated[str, Meta(extra_json_schema={"pattern": "^[a-zA-Z0-9_-]{1,128}$"})]
Label = Annotated[str, Meta(extra_json_schema={"pattern": f"^{_PLAIN}{{1,{MAX_KEY}}}$"})]
Tag = Annotated[str, Meta(extra_json_schema={"pattern": f"^{_PLAIN}{{1,{MAX_NAME}}}$"})]
Fence = Annotated[
    int, Meta(description="As the claim was answered with.", extra_json_schema={"minimum": 1, "maximum": MAX_FENCE})
]
Token = Annotated[
    str,
    Meta(description="As the claim was answered with; proves who holds it.", extra_json_schema={"maxLength": MAX_KEY}),
]
Seconds = Annotated[float, Meta(extra_json_schema={"minimum": 0, "maximum": MAX_DURATION})]
Lease = Annotated[float, Meta(extra_json_schema={"minimum": MIN_LEASE, "maximum": MAX_DURATION})]
Timeout = Annotated[float, Meta(extra_json_schema={"minimum": 0.001, "maximum": MAX_DURATION})]
Level = Annotated[int, Meta(extra_json_schema={"minimum": MIN_PRIORITY, "maximum": MAX_PRIORITY})]
Priority = Level | Annotated[str, Meta(extra_json_schema={"enum": list(PRIORITIES)})]
Attempts = Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": MAX_ATTEMPTS})]
Wait = Annotated[float, Meta(ge=0, le=MAX_WAIT)]
Fraction = Annotated[float, Meta(extra_json_schema={"minimum": 0, "maximum": 1})]
Actor = Label
AttemptsLeft = Annotated[int, Meta(ge=0, le=999_999, description="Only jobs with attempts < max_attempts − this.")]


class Asked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The root of what a client sends."""


class Retry(Asked, frozen=True, kw_only=True):
    """Back-off in seconds: a random time up to min(cap, base · 2^(attempts−1))."""

    base: Seconds = 1.0
    cap: Seconds = 3600.0


class Retain(Asked, frozen=True, kw_only=True):
    """Seconds that a job is kept after each way of ending; ``keyed``: well or cancelled, with an idempotency key."""

    completed: Seconds = 86_400.0
    cancelled: Seconds = 86_400.0
    failed: Seconds = 2_592_000.0
    keyed: Seconds = 604_800.0


class NewTask(Asked, frozen=True, kw_only=True):
    """One job to be enqueued."""

    task_type: Name
    params: Any = None
    id: JobId | None = None
    queue: Name | None = None
    priority: Priority | None = None
    max_attempts: Attempts | None = None
    delay_seconds: Seconds | None = None
    scheduled_at: datetime | None = None
    idempotency_key: Label | None = None
    unique: bool = False
    unique_key: Label | None = None
    batch_id: Label | None = None
    tags: list[Tag] = []
    retry: Retry | None = None
    timeout_seconds: Timeout | None = None
    lease_seconds: Lease | None = None
    retention: Seconds | Retain | None = None
    trace: dict[str, str] | None = None


class NewTasks(Asked, frozen=True, kw_only=True):
    """Up to 1000 jobs, all of them or none."""

    tasks: Annotated[list[NewTask], Meta(extra_json_schema={**_SOME, "maxItems": MAX_BATCH})]


class Claiming(Asked, frozen=True, kw_only=True):
    """A wish to claim."""

    worker_id: WorkerId
    task_types: Names | None = None
    queues: Names | None = None
    max_attempts_remaining: AttemptsLeft | None = None
    sort_by: Literal["priority", "created_at", "random"] = "priority"
    sort_order: Literal["asc", "desc"] | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_CLAIM)] | None = None
    lease_seconds: Lease | None = None
    wait_seconds: Wait | None = None


class ClaimingOne(Asked, frozen=True, kw_only=True):
    """A wish to claim just this job."""

    worker_id: WorkerId
    task_types: Names | None = None
    queues: Names | None = None
    max_attempts_remaining: AttemptsLeft | None = None
    lease_seconds: Lease | None = None


class Held(Asked, frozen=True, kw_only=True):
    """The name of one claim: nothing less is enough to extend or settle it."""

    id: JobId
    fence: Fence
    lease_token: Token


class Completing(Asked, frozen=True, kw_only=True):
    """How a claim ends: well, with a result; or badly, with an error."""

    fence: Fence
    lease_token: Token
    worker_id: WorkerId | None = None
    success: bool = True
    result: Any = None
    error_message: str | None = None
    error_code: str | None = None
    error_kind: str | None = None
    error_traceback: str | None = None
    is_retryable: bool | None = None
    retry_in_seconds: Seconds | None = None


class Beating(Asked, frozen=True, kw_only=True):
    """Keep a claim for another lease."""

    fence: Fence
    lease_token: Token
    worker_id: WorkerId | None = None
    progress: Fraction | None = None
    progress_note: str = ""


class Releasing(Asked, frozen=True, kw_only=True):
    """Give a claim back."""

    fence: Fence
    lease_token: Token
    worker_id: WorkerId | None = None
    delay_seconds: Seconds | None = None


class Settling(Completing, frozen=True, kw_only=True):
    """How one of many claims ends: as for one, or given back with ``release``."""

    id: JobId
    release: bool = False
    delay_seconds: Seconds | None = None


class SettlingMany(Asked, frozen=True, kw_only=True):
    """Claims to be ended, each for itself; and what to claim after that, if anything."""

    claims: Annotated[list[Settling], Meta(max_length=MAX_BATCH)]
    claim: Claiming | None = None


class Extending(Held, frozen=True, kw_only=True):
    """A claim to be kept for another lease."""

    progress: Fraction | None = None
    progress_note: str = ""


class ExtendingMany(Asked, frozen=True, kw_only=True):
    """Claims to be kept, each for itself."""

    claims: Annotated[list[Extending], Meta(max_length=MAX_BATCH)]


class WorkerBeat(Asked, frozen=True, kw_only=True):
    """A worker is alive, and holds exactly these claims."""

    worker_id: WorkerId
    metadata: dict[str, Any] | None = None
    every_seconds: Seconds | None = None
    claims: Annotated[list[Extending], Meta(max_length=MAX_BATCH)] = []


class WorkerShutdown(Asked, frozen=True, kw_only=True):
    """A worker leaves, and gives exactly these claims back."""

    claims: Annotated[list[Held], Meta(max_length=MAX_BATCH)] = []


class Operating(Asked, frozen=True, kw_only=True):
    """Who does it, for the log: an admin may say so; for others it follows the name of their key."""

    by: Actor | None = None


class Cancelling(Operating, frozen=True, kw_only=True):
    """Jobs to be stopped."""

    ids: Annotated[list[JobId], Meta(max_length=MAX_BATCH, extra_json_schema=_SOME)]


class TaskFilter(Asked, frozen=True, kw_only=True):
    """Which jobs are meant; ``failed`` ones, unless a status is named."""

    status: list[Status] = []
    task_type: Name | None = None
    queue: Name | None = None
    worker_id: WorkerId | None = None
    batch_id: Label | None = None
    tag: Tag | None = None
    q: str | None = None
    priority_min: Level | None = None
    priority_max: Level | None = None


class Changing(Operating, frozen=True, kw_only=True):
    """Finished jobs that are to run again, or to go: those named, or those that match. ``dry_run`` only counts."""

    ids: Annotated[list[JobId], Meta(max_length=MAX_BATCH, extra_json_schema=_SOME)] | None = None
    filter: TaskFilter | None = None
    dry_run: bool = False


class Putting(Asked, frozen=True, kw_only=True):
    """A document to be kept; without a value it is removed. ``expect``: only if its version is this one."""

    name: str
    value: Annotated[bytes, Meta(description="In base64.")] | None = None
    expect: Annotated[int, Meta(ge=0)] | None = None
    keep_seconds: Seconds | None = None


class DocumentQuery(Asked, frozen=True, kw_only=True):
    """Which documents to read: one by its name, or all whose name begins so."""

    name: str | None = None
    prefix: str | None = None


class QueueQuery(Asked, frozen=True, kw_only=True):
    """Of which queue; of all, if none is named."""

    queue: Name | None = None


class EventQuery(Asked, frozen=True, kw_only=True):
    """What to follow: the queues, or the job of this id."""

    id: JobId | None = None


class TaskQuery(Asked, frozen=True, kw_only=True):
    """Which jobs to list. ``status`` may be given several times."""

    status: list[Status] = []
    task_type: Name | None = None
    queue: Name | None = None
    worker_id: WorkerId | None = None
    batch_id: Label | None = None
    tag: Tag | None = None
    q: Annotated[str, Meta(description="A part of the id, or of the params as JSON text.")] | None = None
    priority_min: Level | None = None
    priority_max: Level | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_LIST)] = MAX_LIST
    cursor: str | None = None
    sort: Literal["-created_at", "created_at"] = "-created_at"


class Nothing(Asked, frozen=True, kw_only=True):
    """Nothing is to be said."""
