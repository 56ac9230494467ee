"""Jobs in memory, and the indexes that keep every question about them cheap.

Pending jobs wait in lanes, one for each queue, task and priority, each a heap by due time and enqueue order. Entries of
a heap are never searched for: one whose row has moved on since is skipped when it comes to the top, and a heap that is
mostly such entries is built anew. So a claim looks at the tops of the lanes it wants, however many jobs lie below.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from dibs.domain.job import FINISHED, Job, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.domain.job import Event

Key = TypeVar("Key")

_SLACK = 64  # stale entries that are not worth clearing away


class LaneKey(NamedTuple):
    """What jobs of one lane have in common."""

    queue: str
    task: str
    priority: int


class Row:
    """A job, its place in the order of enqueueing, and its log."""

    __slots__ = ("events", "expires_us", "job", "seq", "version")

    def __init__(self, seq: int, job: Job) -> None:
        self.seq = seq
        self.job = job
        self.events: list[Event] = []
        self.expires_us = 0  # when a finished job may be pruned
        self.version = 0  # grows whenever the row moves from one heap, or one place in it, to another


Entry = tuple[int, int, int, Row]  # time, seq, version, row


class Heap:
    """Rows by a time, then by enqueue order."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self.live = 0

    def enter(self, time: int, row: Row) -> None:
        """Take in a row that has just come to belong here."""
        self.live += 1
        self.push(time, row)
        if len(self._entries) > 2 * self.live + _SLACK:
            self._entries = [entry for entry in self._entries if entry[3].version == entry[2]]
            heapify(self._entries)

    def leave(self, row: Row) -> None:
        """Let a row go; its entry is dropped when it comes to the top."""
        self.live -= 1
        row.version += 1

    def push(self, time: int, row: Row) -> None:
        """Put back an entry that was popped."""
        heappush(self._entries, (time, row.seq, row.version, row))

    def top(self) -> Entry | None:
        """Look at the first row."""
        while self._entries:
            entry = self._entries[0]
            if entry[3].version == entry[2]:
                return entry
            heappop(self._entries)
        return None

    def pop(self) -> None:
        """Take the first row's entry out."""
        heappop(self._entries)

    def until(self, time: int, limit: int) -> list[Row]:
        """List the first rows up to a time, and leave them where they are."""
        found: list[Entry] = []
        while len(found) < limit and (top := self.top()) is not None and top[0] <= time:
            found.append(top)
            self.pop()
        for entry in found:
            heappush(self._entries, entry)
        return [entry[3] for entry in found]

    def rows(self) -> Iterator[Row]:
        """Go through all rows, in no order."""
        return (row for _, _, version, row in self._entries if row.version == version)


class Table:
    """All jobs by id, by key, by state, and each in the heap of its state."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.order: list[tuple[int, str]] = []  # by seq; rows that are gone are cleared away now and then
        self.lanes: dict[str, dict[LaneKey, Heap]] = {}  # by queue
        self.leases = Heap()
        self.ended = Heap()
        self.states: dict[str, dict[Status, set[str]]] = {}  # ids by queue and status
        self.keys: dict[str, str] = {}
        self.unique: dict[str, str] = {}  # of unfinished jobs
        self._last_seq = 0

    def add(self, job: Job, expires_us: int = 0) -> Row:
        """Take in a new job; of one that has ended, it is said when it may be pruned."""
        self._last_seq += 1
        row = self.rows[job.id] = Row(self._last_seq, job)
        row.expires_us = expires_us
        self.order.append((row.seq, job.id))
        if job.idempotency_key:
            self.keys[job.idempotency_key] = job.id
        self._enter(row)
        return row

    def remove(self, row: Row) -> None:
        """Forget a job."""
        self._leave(row)
        job = row.job
        del self.rows[job.id]
        if job.idempotency_key:
            del self.keys[job.idempotency_key]
        if len(self.order) > 2 * len(self.rows) + _SLACK:
            self.order = [(row.seq, id) for id, row in self.rows.items()]

    def change(self, row: Row, job: Job) -> None:
        """Put a job's next state in the place of the last."""
        self._leave(row)
        row.job = job
        self._enter(row)

    def row_at(self, seq: int, id: str) -> Row | None:
        """Find the row of an entry of ``order``, unless it is gone (its id may have been used again since)."""
        row = self.rows.get(id)
        return row if row is not None and row.seq == seq else None

    def _enter(self, row: Row) -> None:
        job = row.job
        self.states.setdefault(job.queue, {}).setdefault(job.status, set()).add(job.id)
        if job.unique_key and job.status not in FINISHED:
            self.unique[job.unique_key] = job.id
        if job.status is Status.CLAIMED:
            self.leases.enter(job.lease_expires_us or 0, row)
        elif job.status in FINISHED:
            self.ended.enter(row.expires_us, row)
        else:
            self.lanes.setdefault(job.queue, {}).setdefault(_lane(job), Heap()).enter(job.due_us, row)

    def _leave(self, row: Row) -> None:
        job = row.job
        states = self.states[job.queue]
        states[job.status].discard(job.id)
        if not states[job.status]:
            _drop(self.states, job.queue, job.status)
        if job.unique_key and job.status not in FINISHED:
            del self.unique[job.unique_key]
        if job.status is Status.CLAIMED:
            self.leases.leave(row)
        elif job.status in FINISHED:
            self.ended.leave(row)
        else:
            lane = self.lanes[job.queue][_lane(job)]
            lane.leave(row)
            if not lane.live:
                _drop(self.lanes, job.queue, _lane(job))


def _drop(index: dict[str, dict[Key, Any]], queue: str, key: Key) -> None:
    """Take out what is empty, so that queues which come and go leave nothing behind."""
    del index[queue][key]
    if not index[queue]:
        del index[queue]


def _lane(job: Job) -> LaneKey:
    return LaneKey(job.queue, job.task, job.priority)
