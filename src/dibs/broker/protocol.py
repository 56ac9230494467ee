"""What app, worker and routes talk to: intentions in, jobs and outcomes out. A broker belongs to one event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from dibs.domain.job import Job, Order, Outcome, Ref
from dibs.domain.transitions import Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dibs.domain.audit import Report
    from dibs.domain.batch import BatchInfo
    from dibs.domain.job import (
        Counts,
        Document,
        Event,
        Explanation,
        Extension,
        Filter,
        Json,
        QueueInfo,
        WorkerInfo,
    )
    from dibs.domain.newjob import NewJob
    from dibs.domain.retry import Duration
    from dibs.domain.schedule import Plan, ScheduleInfo, Ticked
    from dibs.domain.schema import Offer, SchemaInfo
    from dibs.store import Written


BEAT_EVERY = 15.0
"""Seconds between two beats of a worker; when two are missed it is called stale."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A wish to claim, as the caller gave it; the broker checks it."""

    worker_id: str
    limit: int = 1
    id: str | None = None
    queues: Sequence[str] | None = None
    tasks: Sequence[str] | None = None
    min_attempts_left: int = 1
    order: Order | str = Order.PRIORITY
    lease: Duration | None = None
    wait: Duration = 0


class Ending(msgspec.Struct, frozen=True):
    """How one claim shall end: completed with a result, failed with a failure, or else released."""

    ref: Ref
    verb: str  # complete, fail, release
    result: Any = None
    failure: Failure | None = None
    delay: Duration | None = None  # of a release
    job: Job | None = None  # as it was claimed, where that is known: saves the broker from reading it


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a cancel, redrive or purge of several jobs."""

    matched: int = 0
    changed: int = 0
    repeated: int = 0  # had been done before
    refused: int = 0  # in another state by then
    missing: int = 0
    conflicts: int = 0  # a newer unfinished job has the unique key
    dry_run: bool = False


class Broker(Protocol):
    """Decides, or sends what is wished to where it is decided. Everything is checked before anything is done."""

    async def enqueue(self, jobs: Sequence[NewJob], *, connection: Any = None) -> list[Job]:
        """Enqueue all of them or none."""
        ...

    async def claim(self, ask: Ask) -> list[Job]:
        """Claim up to ``ask.limit`` jobs, waiting ``ask.wait`` for the first. By id: one, or an error saying why."""
        ...

    async def extend(self, extensions: Sequence[Extension]) -> list[Outcome]:
        """Keep claims for another lease."""
        ...

    async def settle(self, endings: Sequence[Ending], *, connection: Any = None) -> list[Written]:
        """End claims, each for itself."""
        ...

    async def cancel(self, ids: Sequence[str], *, by: str | None = None) -> Changes:
        """Stop jobs. A single id that cannot be is an error; of several it is counted."""
        ...

    async def redrive(
        self, ids: Sequence[str], *, where: Filter | None = None, dry_run: bool = False, by: str | None = None
    ) -> Changes:
        """Run finished jobs again: those named, or those that match (failed ones, unless the filter says otherwise)."""
        ...

    async def purge(
        self, ids: Sequence[str], *, where: Filter | None = None, dry_run: bool = False, by: str | None = None
    ) -> Changes:
        """Remove finished jobs now: those named, or those that match."""
        ...

    async def get(self, id: str) -> Job | None:
        """Read a job."""
        ...

    async def find(
        self, where: Filter, *, limit: int, cursor: str | None, oldest_first: bool = False
    ) -> tuple[list[Job], str | None]:
        """Read a page of jobs, newest first unless asked, and the cursor of the next page (none: this was the last)."""
        ...

    async def log(self, id: str) -> list[Event]:
        """Read a job's events."""
        ...

    async def explain(self, id: str) -> Explanation:
        """Say why a job is not running now."""
        ...

    async def counts(self, queue: str | None = None) -> Counts:
        """Count jobs by state."""
        ...

    async def queues(self) -> list[QueueInfo]:
        """List queues."""
        ...

    async def beat(
        self,
        worker_id: str,
        extensions: Sequence[Extension] = (),
        *,
        metadata: Mapping[str, Json] | None = None,
        every: Duration = BEAT_EVERY,
    ) -> list[Outcome]:
        """Note that a worker is alive, keep exactly these claims, and say of each whether it still holds."""
        ...

    async def retire(self, worker_id: str, refs: Sequence[Ref] = ()) -> list[Written]:
        """Release exactly these claims, and note that the worker has left."""
        ...

    async def workers(self) -> list[WorkerInfo]:
        """List the workers that beat within the last day, and whoever else holds a claim."""
        ...

    async def publish(self, plans: Sequence[Plan]) -> None:
        """Make schedules known, as the code defines them; one that ticks otherwise than before begins anew."""
        ...

    async def tick(self, names: Sequence[str]) -> Ticked:
        """Enqueue what is due of these schedules, each tick once, whoever else does so at the same time."""
        ...

    async def schedules(self) -> list[ScheduleInfo]:
        """List the schedules that are known, by name."""
        ...

    async def pause_schedule(self, name: str, *, by: str | None = None) -> ScheduleInfo:
        """Let a schedule not tick. Pausing twice is no error."""
        ...

    async def resume_schedule(self, name: str, *, by: str | None = None) -> ScheduleInfo:
        """Let a schedule tick again, from now on."""
        ...

    async def run_schedule(self, name: str) -> Job:
        """Enqueue the job of a schedule now, beside its ticks."""
        ...

    async def publish_schemas(self, offers: Sequence[Offer], *, by: str | None = None) -> int:
        """Make known what the params of tasks must look like; say how many of it were not known. Twice is safe."""
        ...

    async def schemas(self) -> list[SchemaInfo]:
        """List the schemas that params may fit, by task, and the newest of a task first."""
        ...

    async def seal(self, batch_id: str, on_end: NewJob) -> None:
        """Have a job enqueued, once, when all jobs of a batch have ended; that may be now. To do so twice is safe."""
        ...

    async def end_batches(self) -> None:
        """Enqueue the last jobs of batches that have ended, now; maintenance does so within half a minute."""
        ...

    async def batch(self, batch_id: str, *, queue: str | None = None) -> BatchInfo:
        """Count the jobs of a batch by status, in all queues or in one; beyond 10,000 of them it is not exact."""
        ...

    async def pause(self, queue: str, *, by: str | None = None) -> None:
        """Let a queue hand out nothing. Pausing twice is no error."""
        ...

    async def resume(self, queue: str, *, by: str | None = None) -> None:
        """Let a queue hand out jobs again."""
        ...

    async def read(self, name: str) -> Document | None:
        """Read a document of the registry."""
        ...

    async def documents(self, prefix: str) -> list[Document]:
        """Read the documents of the registry whose name begins so, by name."""
        ...

    async def put(
        self, name: str, value: bytes | None, *, expect: int | None = None, keep_us: int | None = None
    ) -> Document | None:
        """Write a document of the registry; none if its version is not the expected one."""
        ...

    async def maintain(self) -> None:
        """Reap and prune, again and again, until cancelled. Any number of processes may do so at once."""
        ...

    async def verify(self, progress: Callable[[int], None] | None = None) -> Report:
        """Replay the store's log and prove the promises on it; ``progress`` is told how many jobs have been checked."""
        ...

    async def migrate(self, *, dry_run: bool = False) -> list[str]:
        """Bring the store's schema up to date."""
        ...
