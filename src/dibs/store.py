"""The boundary to a database: what a store must be able to do, and nothing more.

A store is told what was decided (drafts, claim requests, writes) and orders, locks, compares and writes. It decides
nothing about retries, exhaustion or validity. Everything is a batch; each item, or each group of drafts, is answered
for itself and is all or nothing. Every change of a job and its event are one atomic step. All times are microseconds of
the store's own clock, which is never before the last change that was written: if the machine's clock is set back, it
stands still.

The methods may be called from any thread and any event loop of the process that opened the store. To write a store of
your own, run ``dibs.testing.conformance`` against it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import msgspec

from dibs.domain.job import Job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.domain.finding import Finding
    from dibs.domain.job import (
        ClaimRequest,
        Counts,
        Document,
        Draft,
        Event,
        Extension,
        Outcome,
        Query,
        QueueInfo,
        Status,
    )
    from dibs.domain.transitions import Write

Rivals = Callable[[], Awaitable[float]]
"""How many wait for the same in all, as far as is known. It may have to be looked up."""

PAUSED = "paused/"
"""Documents of this prefix name the queues that hand out nothing: ``paused/mail`` pauses ``mail``."""

EXACT_COUNT = 10_000
"""Counts up to this many a state are exact and fresh; beyond, they may be as old as ``COUNT_AGE``."""

COUNT_AGE = 60.0
"""Seconds."""


async def alone() -> float:
    """Say that no one else waits for the same."""
    return 1.0


class Capabilities(NamedTuple):
    """What differs between stores, and is allowed to."""

    durable: bool  # an acknowledged job survives the process
    shared: bool  # several processes may open it at once
    transactions: bool  # ``connection=`` works
    migrates: bool  # it has a schema of its own


class Refusal(msgspec.Struct, frozen=True):
    """Why a whole group of drafts was not inserted: the first that does not fit the job it names."""

    index: int
    field: str
    job: Job
    busy: bool = False  # only for now: another's open transaction may be about to take a name of it


class Written(NamedTuple):
    """What became of a write, and what the job is after it: none if there is no such job, or no longer."""

    outcome: Outcome
    status: Status | None

    @property
    def will_retry(self) -> bool:
        """Say whether the job is to be tried again."""
        return self.status is not None and not self.status.finished


class Audit(NamedTuple):
    """A stretch of the store for the checker: jobs with their logs, each pair read in one snapshot."""

    items: list[tuple[Job | None, list[Event]]]  # no job: it was pruned, and its last event is all that is left
    cursor: str | None  # where to go on; none: this was the last


class Store(Protocol):
    """Decided writes and reads. See the module's text for what holds for all of them."""

    capabilities: Capabilities

    async def open(self) -> None:
        """Connect, and see that the schema is the right one. Calling it twice does nothing."""

    async def close(self) -> None:
        """Finish what was begun and let go of everything."""

    async def now(self) -> int:
        """Tell the time by the store's clock."""
        ...

    async def insert(self, groups: Sequence[Sequence[Draft]], *, connection: Any = None) -> list[list[Job] | Refusal]:
        """Insert each group whole or not at all, its jobs in order.

        What ``identify`` calls a duplicate is answered with the first job, ``was_duplicate`` set; a mismatch refuses
        its group. A later draft of a group sees the earlier ones. Jobs are ordered as they were inserted.
        If another's open transaction is in the way of one of several groups, its refusal may be busy; alone, it waits.
        """
        ...

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[list[Job]]:
        """Lease due, pending jobs of queues that are not paused, to each request in turn, in the order it asks for."""
        ...

    async def extend(self, extensions: Sequence[Extension]) -> list[Outcome]:
        """Lengthen each lease whose claim is current: applied, lost, or busy."""
        ...

    async def write(self, writes: Sequence[Write], *, connection: Any = None) -> list[Written]:
        """Apply each write that ``judge`` lets pass, with its event.

        A job that ends is kept for ``job.keep.after(status)``; zero removes it in the same step, with a ``pruned``
        event. A redriven job whose unique key a newer unfinished job has is a conflict.
        """
        ...

    async def restore(self, items: Sequence[tuple[Job, Sequence[Event]]]) -> list[Job | None]:
        """Put down whole jobs with their logs as another store has them, in order, each by itself; none that is held.

        None: it was put down. Else the answer is the job that has its id or one of its keys already, which stays as it
        is. The store's clock is not before anything that came in.
        """
        ...

    async def expired(self, limit: int) -> list[Job]:
        """List claimed jobs whose lease has run out, longest ago first."""
        ...

    async def prune(self, limit: int) -> int:
        """Remove up to so many finished jobs whose time is over, and old documents and events; say how many jobs."""
        ...

    async def wait(self, request: ClaimRequest, timeout: float, rivals: Rivals = alone, /) -> frozenset[str] | None:
        """Return once the request may find something, or after so many seconds.

        A hint: it may return early, but a job that is due and was there when it was called, or comes while it waits,
        ends it soon (the store says how soon). A store that must look for what others bring looks the more seldom, the
        more rivals wait for the same: any of them may find it. It may say of which queues it has heard: then there is
        nothing in the others that was not there when they were last claimed from, in vain. That comes back as
        ``ClaimRequest.heard``, and a store whose queues lie apart need not look at those.
        """

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        """Read jobs by id, without their lease tokens."""
        ...

    async def find(self, query: Query) -> tuple[list[Job], int | None]:
        """Read one page of jobs, and the cursor of the next (none: this was the last)."""
        ...

    async def log(self, id: str) -> list[Event]:
        """Read a job's events in order; of a pruned job the last one, for a day."""
        ...

    async def audit(self, cursor: str | None, limit: int) -> Audit:
        """Read about so many jobs with their logs, for ``verify``."""
        ...

    async def counts(self, queue: str | None = None) -> Counts:
        """Count the jobs in each state, of one queue or of all."""
        ...

    async def queues(self) -> list[QueueInfo]:
        """List the queues that have jobs or are paused, by name."""
        ...

    async def read(self, name: str) -> Document | None:
        """Read one document."""
        ...

    async def documents(self, prefix: str) -> list[Document]:
        """Read the documents whose name begins so, by name."""
        ...

    async def put(
        self, name: str, value: bytes | None, *, expect: int | None = None, keep_us: int | None = None
    ) -> Document | None:
        """Write a document (none: remove it) if its version is the expected one; none if it is not.

        ``expect=0``: only if it is not there; ``expect=None``: whatever is there. Removing one answers version 0.
        """
        ...

    async def migrate(self, *, dry_run: bool = False) -> list[str]:
        """Bring the schema up to date; say which steps were (or would be) taken."""
        ...


@runtime_checkable
class Examined(Protocol):
    """What a store may also be able to do: say what is wrong with itself, for ``dibs doctor``."""

    async def examine(self) -> list[Finding]:
        """Look at all that may hurt, as far as one can get; change nothing, and raise nothing that can be told."""
        ...
