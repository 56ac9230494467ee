"""Write and extend: the domain judges each job as it is under its row's lock; what it says is put down at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.domain import transitions
from dibs.domain.job import FINISHED, EventName, Job, Outcome, Status
from dibs.store import Written
from dibs.stores.postgres import rows
from dibs.stores.postgres.completing import complete
from dibs.stores.postgres.removing import Gone, remove
from dibs.stores.postgres.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.domain.job import Event, Extension
    from dibs.domain.transitions import Write
    from dibs.stores.postgres.turn import Turn

_FIND = statement("write_find")
_KEYS = statement("write_keys")
_WRITE = statement("write_job")
_LOG = statement("write_log")
_CLOCK = statement("write_clock")
_EXTEND = statement("extend")

COMPLETED = Written(Outcome.APPLIED, Status.COMPLETED)


async def write(turn: Turn, writes: Sequence[Write]) -> list[Written]:
    """Apply each write that still holds. No job is named twice: the caller sees to that."""
    done = await complete(turn, writes)
    if len(done) == len(writes):
        return [COMPLETED] * len(writes)
    rest = iter(await _Writing(turn).write([write for write in writes if write.id not in done]))
    return [COMPLETED if write.id in done else next(rest) for write in writes]


class _Entry:
    """A job that a write speaks of, and its row."""

    __slots__ = ("expires", "job", "lane", "seq")

    def __init__(self, row: rows.Row) -> None:
        self.seq: int = row[0]
        self.lane: int = row[1]
        self.job: Job = rows.job(row)
        self.expires: int | None = row[-2]


class _Writing:
    """One transaction that judges."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._now = 0
        self._held: dict[str, _Entry] = {}
        self._elsewhere: dict[str, Status] = {}  # jobs whose row another transaction holds, and what they were before
        self._keys: dict[str, str] = {}  # unique key -> the unfinished job that has it
        self._changed: list[_Entry] = []
        self._events: list[tuple[Any, ...]] = []
        self._gone: list[Gone] = []

    async def write(self, writes: Sequence[Write]) -> list[Written]:
        async with self._turn.transaction():
            await self._read(writes)
            answers = [self._judge(write) for write in writes]
            await self._flush()
        return answers

    async def _read(self, writes: Sequence[Write]) -> None:
        found = await self._turn.fetch(_FIND, self._turn.told, [write.id for write in writes])
        for now, _, held, *row in found:
            self._now = now
            if held:
                self._held[row[2]] = _Entry(row)
            else:
                self._elsewhere[row[2]] = Status(row[7])
        keys = {
            entry.job.unique_key
            for write in writes
            if write.event is EventName.REDRIVEN and (entry := self._held.get(write.id)) and entry.job.unique_key
        }
        if keys:
            found = await self._turn.fetch(_KEYS, self._turn.told, list(keys))
            self._now = max(self._now, found[0][0])
            self._keys = {key: id for _, key, id in found if key is not None}

    def _judge(self, write: Write) -> Written:
        entry = self._held.get(write.id)
        if entry is None:
            status = self._elsewhere.get(write.id)
            return Written(Outcome.MISSING if status is None else Outcome.BUSY, status)
        before = entry.job
        now = max(self._now, before.updated_us)
        outcome = transitions.judge(before, write, now)
        if outcome is not Outcome.APPLIED:
            return Written(outcome, before.status)
        key = before.unique_key
        if write.event is EventName.REDRIVEN and key is not None:
            if key in self._keys:
                return Written(Outcome.CONFLICT, before.status)
            self._keys[key] = before.id
        after = entry.job = transitions.apply(before, write, now)
        event = transitions.log(before, after, write.event, now, actor=write.actor, note=write.note)
        self._now = now
        if key is not None and after.status in FINISHED and self._keys.get(key) == before.id:
            del self._keys[key]
        if write.to is None:
            self._gone.append(Gone(entry.seq, after, event))
            return Written(outcome, None)
        if after.status in FINISHED:
            kept = after.keep.after(after.status)
            entry.expires = now + kept
            if kept == 0:
                self._gone.append(Gone(entry.seq, after, transitions.prune(after, now)))
                return Written(outcome, after.status)
        else:
            entry.expires = None
            self._turn.news.add((after.queue, after.task))
            self._turn.returned.append((entry.lane, after.due_us))
        self._changed.append(entry)
        self._events.append(_logged(event, entry.seq))
        return Written(outcome, after.status)

    async def _flush(self) -> None:
        if not self._changed and not self._gone:
            return
        if self._gone:
            await remove(self._turn, self._gone)
        ended = [entry for entry in self._changed if entry.expires is not None]
        begun = [entry for entry in self._changed if entry.expires is None]
        for entries in (ended, begun):
            if entries:
                await self._turn.fetch(_WRITE, *rows.columns([_changed(entry) for entry in entries], 13))
        if self._events:
            await self._turn.fetch(_LOG, *rows.columns(self._events, 13))
        await self._turn.fetch(_CLOCK, self._now)


def _changed(entry: _Entry) -> tuple[Any, ...]:
    job = entry.job
    return (
        entry.seq, job.status, job.due_us, job.attempts, job.events, job.updated_us, job.settled_as, job.completed_us,
        entry.expires, job.progress, job.progress_note, rows.encode_error(job.error), job.result_json,
    )  # fmt: skip


def _logged(event: Event, seq: int) -> tuple[Any, ...]:
    return (
        seq, event.seq, event.event, event.from_, event.to, event.worker_id, event.actor, event.fence, event.attempts,
        event.due_us, event.lease_expires_us, event.at_us, event.note,
    )  # fmt: skip


async def extend(turn: Turn, extensions: Sequence[Extension]) -> list[Outcome]:
    """Lengthen each lease whose claim is current. No job is named twice: the caller sees to that."""
    found = await turn.fetch(
        _EXTEND,
        turn.told,
        [extension.ref.id for extension in extensions],
        [extension.ref.fence for extension in extensions],
        [extension.ref.token for extension in extensions],
        [extension.progress for extension in extensions],
        [extension.note for extension in extensions],
    )
    outcomes = [Outcome.LOST] * len(extensions)
    for place, outcome, _ in found:
        outcomes[place - 1] = Outcome(outcome)
    return outcomes
