"""The words of dibs as data: jobs, what is asked of them, what became of them, what is logged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from dibs.domain.retry import SECOND, Backoff, Duration, micros

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
"""What may be given as params or result."""

DAY = 86_400.0

NEVER = 2**62
"""A due time that does not come by itself: a job held back until something else sets it free."""


class Status(StrEnum):
    """Where a job is in its life: these five and no others."""

    PENDING = "pending"
    CLAIMED = "claimed"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def finished(self) -> bool:
        """Say whether nothing more happens to the job by itself."""
        return self in FINISHED


FINISHED = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})
UNFINISHED = frozenset({Status.PENDING, Status.CLAIMED})


class EventName(StrEnum):
    """What can happen to a job; one of these is logged with every transition."""

    ENQUEUED = "enqueued"
    CLAIMED = "claimed"
    COMPLETED = "completed"
    RETRIED = "retried"
    FAILED = "failed"
    RELEASED = "released"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    REDRIVEN = "redriven"
    PRUNED = "pruned"


class Order(StrEnum):
    """The order in which a claim takes due jobs."""

    PRIORITY = "priority"
    PRIORITY_ASC = "priority_asc"
    CREATED_AT = "created_at"
    CREATED_AT_DESC = "created_at_desc"
    RANDOM = "random"


class Outcome(StrEnum):
    """What became of a write."""

    APPLIED = "applied"
    REPEATED = "repeated"  # the same had been done before; nothing changed
    LOST = "lost"  # the job has moved on; nothing changed
    IN_DOUBT = "in_doubt"  # lost, but it was sent before without an answer, and may have been written then
    BUSY = "busy"  # another transaction holds the row; nothing changed, ask again
    MISSING = "missing"  # there is no such job
    CONFLICT = "conflict"  # a newer unfinished job has its unique key; nothing changed


class Keep(msgspec.Struct, frozen=True, gc=False):
    """How many microseconds a job is kept after each way of ending; zero means gone at once."""

    completed: int
    failed: int
    cancelled: int

    def after(self, status: Status) -> int:
        """Say how long a job is kept that has just ended as ``status``."""
        if status is Status.COMPLETED:
            return self.completed
        return self.failed if status is Status.FAILED else self.cancelled


class Retention(msgspec.Struct, frozen=True):
    """How long a job is kept after its end, in seconds or as timedelta; zero means gone at once."""

    completed: Duration = DAY
    cancelled: Duration = DAY
    failed: Duration = 30 * DAY
    keyed: Duration = 7 * DAY  # completed or cancelled, with an idempotency key

    def keep(self, *, keyed: bool) -> Keep:
        """Resolve to what is stored on the job."""
        completed, cancelled = micros(self.completed), micros(self.cancelled)
        if keyed:
            longer = micros(self.keyed)
            completed, cancelled = max(completed, longer), max(cancelled, longer)
        return Keep(completed, micros(self.failed), cancelled)


class Terms(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was settled about a job when it was enqueued, as data, so that any process can act on it."""

    retry: Backoff = Backoff()
    timeout_us: int | None = None
    lease_us: int = 300 * SECOND
    tags: tuple[str, ...] = ()
    trace: dict[str, str] | None = None
    limit_key: str | None = None
    after: tuple[str, ...] = ()


class Error(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Why an attempt failed; each text is cut so that all of it stays below 8 KiB."""

    message: str
    kind: str = "error"  # the exception's class, or lease_expired, timeout, …
    code: str | None = None
    traceback: str | None = None


class Ref(msgspec.Struct, frozen=True, gc=False):
    """The name of one claim: nothing less is enough to extend or settle it."""

    id: str
    fence: int
    token: str


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_of(us: int | None) -> datetime | None:
    """Read microseconds as a time; none for what does not come by itself."""
    # Not fromtimestamp: a float of the last second of the year 9999 is in the year 10000, which is no datetime.
    return None if us is None or us >= NEVER else _EPOCH + timedelta(microseconds=us)


class Job(msgspec.Struct, frozen=True, gc=False):
    """One piece of work, as it stood when read. Names ending in ``_us`` are microseconds of the store's time."""

    id: str
    queue: str
    task: str
    params_json: bytes
    priority: int
    status: Status
    due_us: int
    attempts: int
    max_attempts: int
    fence: int
    created_us: int
    updated_us: int
    terms: Terms
    keep: Keep
    worker_id: str | None = None
    claimed_us: int | None = None
    lease_expires_us: int | None = None
    claim_lease_us: int | None = None  # how long the current or last claim's lease lasts each time
    lease_token: str = ""  # only in what a claim returns
    settled_as: EventName | None = None  # how the last claim ended; none while it is current
    idempotency_key: str | None = None
    unique_key: str | None = None
    batch_id: str | None = None
    result_json: bytes | None = None
    error: Error | None = None
    progress: float | None = None
    progress_note: str = ""
    completed_us: int | None = None
    events: int = 1  # how many events are in its log
    was_duplicate: bool = False

    @property
    def params(self) -> Any:
        """The params, decoded anew at each call."""
        return msgspec.json.decode(self.params_json)

    @property
    def result(self) -> Any:
        """What the job was completed with."""
        return None if self.result_json is None else msgspec.json.decode(self.result_json)

    def __repr__(self) -> str:
        """Show what one looks for in a log; never the lease token, which is its holder's alone."""
        tried = f"attempts {self.attempts} of {self.max_attempts}, fence {self.fence}"
        return f"<Job {self.id!r} of task {self.task!r} in queue {self.queue!r}, {self.status}, {tried}>"

    @property
    def ref(self) -> Ref:
        """The claim that this job was returned under."""
        return Ref(self.id, self.fence, self.lease_token)

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags that the job was enqueued with."""
        return self.terms.tags

    @property
    def trace(self) -> dict[str, str]:
        """The trace context that the job was enqueued with; empty if there was none."""
        return dict(self.terms.trace or {})

    @property
    def attempts_left(self) -> int:
        """How many more times the job may be tried."""
        return self.max_attempts - self.attempts

    @property
    def scheduled_at(self) -> datetime | None:
        """When the job is or was due; none if it waits for something other than time."""
        return time_of(self.due_us)

    @property
    def created_at(self) -> datetime:
        """When the store took the job in."""
        return datetime.fromtimestamp(self.created_us / SECOND, UTC)

    @property
    def updated_at(self) -> datetime:
        """When the job last changed."""
        return datetime.fromtimestamp(self.updated_us / SECOND, UTC)

    @property
    def claimed_at(self) -> datetime | None:
        """When the current or last claim began."""
        return time_of(self.claimed_us)

    @property
    def lease_expires_at(self) -> datetime | None:
        """Until when the current or last claim is or was safe."""
        return time_of(self.lease_expires_us)

    @property
    def completed_at(self) -> datetime | None:
        """When the job ended, in whichever way."""
        return time_of(self.completed_us)


class Draft(msgspec.Struct, frozen=True, gc=False):
    """A job that has been checked and decided, ready to be inserted."""

    id: str
    queue: str
    task: str
    params_json: bytes
    priority: int
    max_attempts: int
    terms: Terms
    keep: Keep
    delay_us: int | None = 0  # from the store's now; none: held back until something else sets it free
    scheduled_us: int | None = None  # due is the later of this and now + delay
    idempotency_key: str | None = None
    unique_key: str | None = None
    batch_id: str | None = None

    def due(self, now: int) -> int:
        """Say when the job is due if the store takes it in at ``now``."""
        if self.delay_us is None:
            return NEVER
        return max(now + self.delay_us, self.scheduled_us or 0)

    def job(self, now: int) -> Job:
        """Make the job that this draft becomes when it is inserted at ``now``."""
        return Job(
            self.id,
            self.queue,
            self.task,
            self.params_json,
            self.priority,
            Status.PENDING,
            self.due(now),
            0,
            self.max_attempts,
            0,
            now,
            now,
            self.terms,
            self.keep,
            idempotency_key=self.idempotency_key,
            unique_key=self.unique_key,
            batch_id=self.batch_id,
        )


class ClaimRequest(msgspec.Struct, frozen=True, gc=False):
    """What a claimer asks for, checked. ``token`` is the lease token of every job it gets."""

    worker_id: str
    token: str
    limit: int = 1
    id: str | None = None
    queues: tuple[str, ...] | None = None
    tasks: tuple[str, ...] | None = None
    min_attempts_left: int = 1
    order: Order = Order.PRIORITY
    lease_us: int | None = None  # none: each job's own
    heard: frozenset[str] | None = None  # asked for in vain a moment ago, and news came since, of these queues alone

    def wants(self, queue: str, task: str) -> bool:
        """Say whether jobs of this queue and task are asked for."""
        return (self.queues is None or queue in self.queues) and (self.tasks is None or task in self.tasks)


class Extension(msgspec.Struct, frozen=True, gc=False):
    """Keep a claim for another lease, and say how far its work has come."""

    ref: Ref
    progress: float | None = None
    note: str = ""


class Event(msgspec.Struct, frozen=True, gc=False):
    """One line of a job's log."""

    job_id: str
    seq: int
    event: EventName
    from_: Status | None
    to: Status | None
    worker_id: str | None
    actor: str | None
    fence: int
    attempts: int
    due_us: int
    lease_expires_us: int | None
    at_us: int
    note: str = ""

    @property
    def at(self) -> datetime:
        """When it happened, by the store's clock."""
        return datetime.fromtimestamp(self.at_us / SECOND, UTC)


class Document(msgspec.Struct, frozen=True, gc=False):
    """A named value in the registry. ``version`` grows with each write; 0 stands for one that is not there."""

    name: str
    version: int
    value: bytes
    updated_us: int
    expires_us: int | None = None


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs are meant, where they are not named one by one."""

    status: Status | str | Sequence[Status | str] | None = None
    queue: str | None = None
    task: str | None = None
    worker_id: str | None = None
    batch_id: str | None = None
    tag: str | None = None
    q: str | None = None  # in the id, or in the params as JSON text
    priority_min: int | None = None
    priority_max: int | None = None


class Query(msgspec.Struct, frozen=True, gc=False):
    """What ``find`` looks for; newest first unless ``oldest_first``."""

    status: tuple[Status, ...] = ()
    queue: str | None = None
    task: str | None = None
    worker_id: str | None = None
    batch_id: str | None = None
    tag: str | None = None
    q: str | None = None  # in the id, or in the params as JSON text
    priority_min: int | None = None
    priority_max: int | None = None
    oldest_first: bool = False
    limit: int = 100
    cursor: int | None = None  # the place the last page ended at

    def matches(self, job: Job) -> bool:
        """Say whether a job is one of those that are looked for, wherever the page begins."""
        return (
            (not self.status or job.status in self.status)
            and self.queue in {None, job.queue}
            and self.task in {None, job.task}
            and self.worker_id in {None, job.worker_id}
            and self.batch_id in {None, job.batch_id}
            and (self.tag is None or self.tag in job.tags)
            and (self.priority_min is None or job.priority >= self.priority_min)
            and (self.priority_max is None or job.priority <= self.priority_max)
            and (self.q is None or self.q in job.id or self.q.encode() in job.params_json)
        )


class Counts(msgspec.Struct, frozen=True, gc=False):
    """How many jobs there are in each state; ``exact`` unless one has more than 10,000."""

    pending: int = 0  # due now
    scheduled: int = 0  # pending, due later
    claimed: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    exact: bool = True

    @property
    def unfinished(self) -> int:
        """How many have not ended yet."""
        return self.pending + self.scheduled + self.claimed


class QueueInfo(msgspec.Struct, frozen=True, gc=False):
    """One queue at a glance."""

    queue: str
    counts: Counts
    paused: bool
    oldest_due_us: int | None  # the due time of the job that has been due longest
    claimed_per_minute: int = 0  # by all processes that have claimed for longer than a moment


class WorkerInfo(msgspec.Struct, frozen=True, gc=False):
    """One worker at a glance."""

    worker_id: str
    status: str  # active, stale, inactive
    last_seen_us: int
    active_tasks: int  # how many jobs it holds
    metadata: dict[str, Any] = {}

    @property
    def last_seen_at(self) -> datetime:
        """When it last claimed, extended or beat."""
        return datetime.fromtimestamp(self.last_seen_us / SECOND, UTC)


class Explanation(msgspec.Struct, frozen=True, gc=False):
    """Why a job is not running now, as a code for programs and in words for people."""

    code: str
    message: str
    job: Job
