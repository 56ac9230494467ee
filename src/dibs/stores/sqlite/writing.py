"""Write and extend: the domain judges each job as it is under the write lock; what it says is put down at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.domain import transitions
from dibs.domain.job import FINISHED, EventName, Job, Outcome, Status
from dibs.store import Written
from dibs.stores.sqlite import rows
from dibs.stores.sqlite.completing import COMPLETED, complete
from dibs.stores.sqlite.removing import remove
from dibs.stores.sqlite.rows import json_array
from dibs.stores.sqlite.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.domain.job import Event, Extension
    from dibs.domain.transitions import Write
    from dibs.stores.sqlite.moment import Moment

_FIND = statement("job_by_id")
_WRITE = statement("write_job")
_LOG = statement("write_log")
_UNIQUE = statement("write_unique")
_EXTEND_FIND = statement("extend_find")
_EXTEND = statement("extend_write")


class _Entry:
    """A job that writes speak of, as the last of them left it."""

    __slots__ = ("expires", "job", "lane", "seq")

    def __init__(self, seq: int, lane: int, job: Job, expires: int | None) -> None:
        self.seq, self.lane, self.job, self.expires = seq, lane, job, expires


def write(moment: Moment, writes: Sequence[Write]) -> list[Written]:
    """Apply each write that still holds; a later one sees what an earlier one left."""
    done = complete(moment, writes)
    if len(done) == len(writes):
        return [COMPLETED] * len(writes)
    rest = iter(_Writing(moment, [write for write in writes if write.id not in done]).answers)
    return [COMPLETED if write.id in done else next(rest) for write in writes]


class _Writing:
    def __init__(self, moment: Moment, writes: Sequence[Write]) -> None:
        self._moment = moment
        found = moment.execute(_FIND, (json_array([write.id for write in writes]),)).fetchall()
        self._entries = {row[2]: _Entry(row[0], row[1], rows.job(row, moment.lanes), row[-2]) for row in found}
        self._changed: dict[int, _Entry] = {}
        self._events: list[rows.Row] = []
        self._dues: list[tuple[int, int]] = []
        self._gone: list[tuple[int, Job, Event]] = []
        self.answers = [self._write(write) for write in writes]
        self._flush()
        if self._gone:
            remove(moment, self._gone)
        if self._dues:
            moment.lower(self._dues)

    def _write(self, write: Write) -> Written:
        now = self._moment.now
        entry = self._entries.get(write.id)
        if entry is None:
            return Written(Outcome.MISSING, None)
        before = entry.job
        outcome = transitions.judge(before, write, now)
        if outcome is not Outcome.APPLIED:
            return Written(outcome, before.status)
        if write.event is EventName.REDRIVEN and before.unique_key is not None and self._taken(before.unique_key):
            return Written(Outcome.CONFLICT, before.status)
        after = transitions.apply(before, write, now)
        event = transitions.log(before, after, write.event, now, actor=write.actor, note=write.note)
        if write.to is None:
            self._remove(entry, event)
            return Written(outcome, None)
        entry.job = after
        self._events.append(rows.logged(event, entry.seq))
        self._changed[entry.seq] = entry
        entry.expires = None
        if after.status in FINISHED:
            kept = after.keep.after(after.status)
            entry.expires = now + kept
            if kept == 0:
                self._remove(entry, transitions.prune(after, now))
        elif after.status is Status.PENDING:
            self._dues.append((entry.lane, after.due_us))
        return Written(outcome, after.status)

    def _remove(self, entry: _Entry, event: Event) -> None:
        self._gone.append((entry.seq, entry.job, event))
        self._changed.pop(entry.seq, None)
        del self._entries[entry.job.id]

    def _taken(self, unique_key: str) -> bool:
        """Ask who has a key; what earlier writes of this batch did to it must be in the table by then."""
        self._flush()
        if self._gone:
            remove(self._moment, self._gone)
            self._gone = []
        return self._moment.execute(_UNIQUE, (unique_key,)).fetchone() is not None

    def _flush(self) -> None:
        if self._changed:
            self._moment.touched = True
            changed = [rows.changed(entry.job, entry.expires, entry.seq) for entry in self._changed.values()]
            self._moment.executemany(_WRITE, changed)
            self._changed.clear()
        if self._events:
            self._moment.executemany(_LOG, self._events)
            self._events = []


def extend(moment: Moment, extensions: Sequence[Extension]) -> list[Outcome]:
    """Lengthen each lease whose claim is current."""
    found = moment.execute(_EXTEND_FIND, (json_array([extension.ref.id for extension in extensions]),)).fetchall()
    claims = {row[1]: (row[0], rows.claim(row)) for row in found}
    outcomes: list[Outcome] = []
    changed: dict[int, rows.Row] = {}
    for extension in extensions:
        seq, job = claims.get(extension.ref.id, (0, None))
        if job is None or not transitions.holds(job, extension.ref):
            outcomes.append(Outcome.LOST)
            continue
        job = transitions.extend(job, extension, moment.now)
        claims[job.id] = (seq, job)
        changed[seq] = (job.lease_expires_us, job.updated_us, job.progress, job.progress_note, seq)
        outcomes.append(Outcome.APPLIED)
    if changed:
        moment.touched = True
        moment.executemany(_EXTEND, changed.values())
    return outcomes
