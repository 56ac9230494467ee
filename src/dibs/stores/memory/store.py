"""The memory store: one critical section, nothing durable; for tests, for one process, and the others' oracle."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from dibs.clock import Bell
from dibs.domain import transitions
from dibs.domain.errors import NotSupported
from dibs.domain.job import (
    FINISHED,
    Counts,
    Document,
    Draft,
    Event,
    EventName,
    Job,
    Order,
    Outcome,
    Query,
    QueueInfo,
    Status,
)
from dibs.domain.retry import SECOND
from dibs.store import EXACT_COUNT, PAUSED, Audit, Capabilities, Refusal, Written, alone
from dibs.stores.common import restoring
from dibs.stores.memory.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dibs.clock import Clock
    from dibs.domain.job import ClaimRequest, Extension
    from dibs.domain.transitions import Write
    from dibs.store import Rivals
    from dibs.stores.common.restoring import Whole
    from dibs.stores.memory.table import Entry, Heap, LaneKey, Row

_DAY = 86_400 * SECOND


class MemoryStore:
    """All of dibs's semantics, in dictionaries."""

    capabilities = Capabilities(durable=False, shared=False, transactions=False, migrates=False)

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._bell = Bell(clock)
        self._high = 0
        self._table = Table()
        self._gone: dict[str, list[Event]] = {}
        self._documents: dict[str, Document] = {}

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close: the jobs live as long as the store."""

    async def now(self) -> int:
        """Tell the time by the store's clock."""
        with self._lock:
            return self._now()

    def _now(self) -> int:
        """Tell the machine's time, but never one before the last change: that is what every store keeps of the time."""
        return max(self._high, self._clock.now())

    # Insert

    async def insert(self, groups: Sequence[Sequence[Draft]], *, connection: Any = None) -> list[list[Job] | Refusal]:
        """Insert each group whole or not at all."""
        _refuse(connection)
        with self._lock:
            now = self._now()
            answers = [self._insert_group(group, now) for group in groups]
        self._bell.ring()
        return answers

    def _insert_group(self, group: Sequence[Draft], now: int) -> list[Job] | Refusal:
        jobs: list[Job] = []
        new: list[Row] = []
        for index, draft in enumerate(group):
            first, mismatch = self._identify(draft)
            if mismatch is not None and first is not None:
                for row in new:
                    self._table.remove(row)
                return Refusal(index, mismatch, _public(first))
            if first is not None:
                jobs.append(replace(_public(first), was_duplicate=True))
                continue
            row = self._table.add(draft.job(now))
            row.events.append(transitions.log(None, row.job, EventName.ENQUEUED, now))
            new.append(row)
            jobs.append(row.job)
        if new:
            self._high = now
        return jobs

    def _identify(self, draft: Draft) -> transitions.Identity:
        def job(id: str | None) -> Job | None:
            return None if id is None else self._table.rows[id].job

        return transitions.identify(
            draft,
            job(draft.id if draft.id in self._table.rows else None),
            job(self._table.keys.get(draft.idempotency_key or "")),
            job(self._table.unique.get(draft.unique_key or "")),
        )

    # Claim, extend, write

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[list[Job]]:
        """Lease due jobs to each request in turn."""
        with self._lock:
            now = self._now()
            return [[self._lease(row, request, now) for row in self._pick(request, now)] for request in requests]

    def _lease(self, row: Row, request: ClaimRequest, now: int) -> Job:
        self._high = now
        before, after = row.job, transitions.claim(row.job, request, now)
        self._table.change(row, after)
        row.events.append(transitions.log(before, after, EventName.CLAIMED, now))
        return after

    def _pick(self, request: ClaimRequest, now: int) -> list[Row]:
        if request.id is not None:
            row = self._table.rows.get(request.id)
            return [row] if row is not None and self._claimable(row.job, request, now) else []
        if request.order in {Order.PRIORITY, Order.PRIORITY_ASC}:
            return self._pick_best(request, now)
        rows = [
            row
            for _, lane in self._wanted(request)
            for row in lane.rows()
            if row.job.due_us <= now and row.job.attempts_left >= request.min_attempts_left
        ]
        if request.order is Order.RANDOM:
            return self._clock.random.sample(rows, min(request.limit, len(rows)))
        rows.sort(key=lambda row: row.seq, reverse=request.order is Order.CREATED_AT_DESC)
        return rows[: request.limit]

    def _claimable(self, job: Job, request: ClaimRequest, now: int) -> bool:
        return (
            job.status is Status.PENDING
            and job.due_us <= now
            and job.attempts_left >= request.min_attempts_left
            and request.wants(job.queue, job.task)
            and not self._paused(job.queue)
        )

    def _pick_best(self, request: ClaimRequest, now: int) -> list[Row]:
        """Merge the lanes' heaps: the best top is taken, and its lane's next one takes part again."""
        sign = -1 if request.order is Order.PRIORITY else 1
        tops: list[tuple[int, Entry, Heap]] = []
        for key, lane in self._wanted(request):
            top = lane.top()
            if top is not None and top[0] <= now:
                tops.append((sign * key.priority, top, lane))
        heapify(tops)
        picked: list[Row] = []
        passed: list[tuple[Heap, int, Row]] = []
        while tops and len(picked) < request.limit:
            rank, (due, _, _, row), lane = heappop(tops)
            lane.pop()
            if row.job.attempts_left >= request.min_attempts_left:
                picked.append(row)
            else:
                passed.append((lane, due, row))
            top = lane.top()
            if top is not None and top[0] <= now:
                heappush(tops, (rank, top, lane))
        for lane, due, row in passed:
            lane.push(due, row)
        return picked

    def _wanted(self, request: ClaimRequest) -> Iterator[tuple[LaneKey, Heap]]:
        queues = self._table.lanes if request.queues is None else dict.fromkeys(request.queues)
        for queue in queues:
            if not self._paused(queue):
                for key, lane in self._table.lanes.get(queue, {}).items():
                    if request.tasks is None or key.task in request.tasks:
                        yield key, lane

    def _paused(self, queue: str) -> bool:
        return self._document(PAUSED + queue, self._now()) is not None

    def _document(self, name: str, now: int) -> Document | None:
        document = self._documents.get(name)
        if document is not None and document.expires_us is not None and document.expires_us <= now:
            return None
        return document

    async def extend(self, extensions: Sequence[Extension]) -> list[Outcome]:
        """Lengthen each lease whose claim is current."""
        with self._lock:
            now = self._now()
            return [self._extend(extension, now) for extension in extensions]

    def _extend(self, extension: Extension, now: int) -> Outcome:
        row = self._table.rows.get(extension.ref.id)
        if row is None or not transitions.holds(row.job, extension.ref):
            return Outcome.LOST
        self._high = now
        self._table.change(row, transitions.extend(row.job, extension, now))
        return Outcome.APPLIED

    async def write(self, writes: Sequence[Write], *, connection: Any = None) -> list[Written]:
        """Apply each write that still holds."""
        _refuse(connection)
        with self._lock:
            now = self._now()
            answers = [self._write(write, now) for write in writes]
        self._bell.ring()
        return answers

    def _write(self, write: Write, now: int) -> Written:
        row = self._table.rows.get(write.id)
        if row is None:
            return Written(Outcome.MISSING, None)
        outcome = transitions.judge(row.job, write, now)
        if outcome is not Outcome.APPLIED:
            return Written(outcome, row.job.status)
        if write.event is EventName.REDRIVEN and row.job.unique_key in self._table.unique:
            return Written(Outcome.CONFLICT, row.job.status)
        self._high = now
        before, after = row.job, transitions.apply(row.job, write, now)
        event = transitions.log(before, after, write.event, now, actor=write.actor, note=write.note)
        if write.to is None:
            self._bury(row, event)
            return Written(outcome, None)
        kept = after.keep.after(after.status) if after.status in FINISHED else None
        row.expires_us = now + (kept or 0)
        row.events.append(event)
        self._table.change(row, after)
        if kept == 0:
            self._bury(row, transitions.prune(row.job, now))
        return Written(outcome, after.status)

    async def restore(self, items: Sequence[tuple[Job, Sequence[Event]]]) -> list[Job | None]:
        """Put down whole jobs as another store has them."""
        with self._lock:
            wholes = restoring.whole(items)
            new, answers = restoring.sift(wholes, self._named(wholes))
            for item in new:
                row = self._table.add(_public(item.job), item.expires or 0)
                row.events.extend(item.events)
                self._high = max(self._high, item.latest)
        self._bell.ring()
        return answers

    def _named(self, items: Sequence[Whole]) -> Iterator[tuple[str, Job]]:
        ids, keys, unique = restoring.names(items)
        for kind, found in (
            ("id", [id for id in ids if id in self._table.rows]),
            ("key", [self._table.keys[key] for key in keys if key in self._table.keys]),
            ("unique", [self._table.unique[key] for key in unique if key in self._table.unique]),
        ):
            for id in found:
                yield kind, _public(self._table.rows[id].job)

    # Maintenance

    async def expired(self, limit: int) -> list[Job]:
        """List claimed jobs whose lease has run out."""
        with self._lock:
            now = self._now()
            return [_public(row.job) for row in self._table.leases.until(now, limit)]

    async def prune(self, limit: int) -> int:
        """Remove finished jobs whose time is over."""
        with self._lock:
            now = self._now()
            for id in [id for id, events in self._gone.items() if events[-1].at_us + _DAY <= now]:
                del self._gone[id]
            for name in [n for n, d in self._documents.items() if d.expires_us is not None and d.expires_us <= now]:
                del self._documents[name]
            ended = self._table.ended.until(now, limit)
            for row in ended:
                self._bury(row, transitions.prune(row.job, now))
            return len(ended)

    def _bury(self, row: Row, event: Event) -> None:
        self._high = event.at_us
        self._gone[row.job.id] = [event]
        self._table.remove(row)

    async def wait(self, request: ClaimRequest, timeout: float, _rivals: Rivals = alone, /) -> None:
        """Return once the request may find something."""
        listener = self._bell.listen()
        with self._lock:
            now = self._now()
            tops = [top[0] for _, lane in self._wanted(request) if (top := lane.top()) is not None]
        due = min(tops, default=None)
        if due is None:
            await listener.wait(timeout)
        elif due > now:
            await listener.wait(min(timeout, (due - now) / SECOND))
        else:
            listener.close()

    # Reading

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        """Read jobs by id."""
        with self._lock:
            return [_public(self._table.rows[id].job) if id in self._table.rows else None for id in ids]

    async def find(self, query: Query) -> tuple[list[Job], int | None]:
        """Read one page of jobs."""
        with self._lock:
            found: list[tuple[int, Job]] = []
            for seq, id in self._walk(query):
                row = self._table.row_at(seq, id)
                if row is not None and query.matches(row.job):
                    found.append((seq, _public(row.job)))
                    if len(found) > query.limit:
                        break
        more = len(found) > query.limit
        page = found[: query.limit]
        return [job for _, job in page], page[-1][0] if more else None

    def _walk(self, query: Query) -> Iterator[tuple[int, str]]:
        if query.oldest_first:
            start = 0 if query.cursor is None else bisect_right(self._table.order, (query.cursor, "\U0010ffff"))
            return (self._table.order[i] for i in range(start, len(self._table.order)))
        end = len(self._table.order) if query.cursor is None else bisect_left(self._table.order, (query.cursor, ""))
        return (self._table.order[i] for i in range(end - 1, -1, -1))

    async def log(self, id: str) -> list[Event]:
        """Read a job's events."""
        with self._lock:
            row = self._table.rows.get(id)
            return list(self._gone.get(id, ()) if row is None else row.events)

    async def audit(self, cursor: str | None, limit: int) -> Audit:
        """Read jobs with their logs, then what is left of those that are gone."""
        with self._lock:
            start = bisect_right(self._table.order, (int(cursor or 0), "\U0010ffff"))
            items: list[tuple[Job | None, list[Event]]] = []
            for seq, id in self._table.order[start : start + limit]:
                row = self._table.row_at(seq, id)
                if row is not None:
                    items.append((_public(row.job), list(row.events)))
            if start + limit < len(self._table.order):
                return Audit(items, str(self._table.order[start + limit - 1][0]))
            items += [(None, list(events)) for id, events in self._gone.items() if id not in self._table.rows]
            return Audit(items, None)

    async def counts(self, queue: str | None = None) -> Counts:
        """Count the jobs in each state."""
        with self._lock:
            return self._counts(queue, self._now())

    def _counts(self, queue: str | None, now: int) -> Counts:
        totals = dict.fromkeys(Status, 0)
        due = 0
        for name in self._table.states if queue is None else [queue]:
            for status, ids in self._table.states.get(name, {}).items():
                totals[status] += len(ids)
            for lane in self._table.lanes.get(name, {}).values():
                due += sum(1 for row in lane.rows() if row.job.due_us <= now)
        scheduled = totals[Status.PENDING] - due
        finished = (totals[Status.COMPLETED], totals[Status.FAILED], totals[Status.CANCELLED])
        exact = max(due, scheduled, totals[Status.CLAIMED], *finished) <= EXACT_COUNT
        return Counts(due, scheduled, totals[Status.CLAIMED], *finished, exact=exact)

    async def queues(self) -> list[QueueInfo]:
        """List the queues that have jobs or are paused."""
        with self._lock:
            now = self._now()
            paused = {name.removeprefix(PAUSED) for name in self._documents if name.startswith(PAUSED)}
            names = set(self._table.states) | set(filter(self._paused, paused))
            return [
                QueueInfo(name, self._counts(name, now), self._paused(name), self._oldest_due(name, now))
                for name in sorted(names)
            ]

    def _oldest_due(self, queue: str, now: int) -> int | None:
        tops = [lane.top() for lane in self._table.lanes.get(queue, {}).values()]
        return min((top[0] for top in tops if top is not None and top[0] <= now), default=None)

    # Documents

    async def read(self, name: str) -> Document | None:
        """Read one document."""
        with self._lock:
            return self._document(name, self._now())

    async def documents(self, prefix: str) -> list[Document]:
        """Read the documents whose name begins so."""
        with self._lock:
            now = self._now()
            return [
                document
                for name, document in sorted(self._documents.items())
                if name.startswith(prefix) and self._document(name, now) is not None
            ]

    async def put(
        self, name: str, value: bytes | None, *, expect: int | None = None, keep_us: int | None = None
    ) -> Document | None:
        """Write a document if its version is the expected one."""
        with self._lock:
            now = self._now()
            old = self._document(name, now)
            version = 0 if old is None else old.version
            if expect is not None and expect != version:
                return None
            self._high = now
            if value is None:
                self._documents.pop(name, None)
                document = Document(name, 0, b"", now)
            else:
                expires = None if keep_us is None else now + keep_us
                document = self._documents[name] = Document(name, version + 1, value, now, expires)
        if name.startswith(PAUSED):
            self._bell.ring()
        return document

    async def migrate(self, *, dry_run: bool = False) -> list[str]:
        """There is no schema."""
        del dry_run
        return []


def _public(job: Job) -> Job:
    return replace(job, lease_token="") if job.lease_token else job


def _refuse(connection: Any) -> None:
    if connection is not None:
        raise NotSupported("connection: the memory store has no transactions", hint="Leave connection out.")
