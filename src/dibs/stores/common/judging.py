"""Judging: the domain's verdict on each job as it is under its row's lock, and what is then to be put down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dibs.domain import transitions
from dibs.domain.job import FINISHED, Event, EventName, Job, Outcome, Status
from dibs.store import Written
from dibs.stores.common import rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.domain.transitions import Write


class Gone(NamedTuple):
    """A job that goes, and its last event."""

    seq: int
    job: Job
    event: Event


class Entry:
    """A job that a write speaks of, and its row, as ``dibs_whole`` has it."""

    __slots__ = ("expires", "job", "lane", "seq")

    def __init__(self, row: rows.Row) -> None:
        self.seq: int = row[0]
        self.lane: int = row[1]
        self.job: Job = rows.job(row)
        self.expires: int | None = row[-2]

    @property
    def columns(self) -> tuple[Any, ...]:
        """What ``write_job`` puts down."""
        job = self.job
        return (
            self.seq, job.status, job.due_us, job.attempts, job.events, job.updated_us, job.settled_as,
            job.completed_us, self.expires, job.progress, job.progress_note, rows.encode_error(job.error),
            job.result_json,
        )  # fmt: skip


class Court:
    """One transaction that judges: told what was found, asked for a verdict on each write, and what to put down."""

    def __init__(self) -> None:
        self.now = 0
        self.held: dict[str, Entry] = {}
        self.elsewhere: dict[str, Status] = {}  # jobs whose row another transaction holds, and what they were before
        self.keys: dict[str, str] = {}  # unique key -> the unfinished job that has it
        self.changed: list[Entry] = []
        self.logged: list[Event] = []  # one for each that has changed
        self.events: list[tuple[Any, ...]] = []  # the same as rows of ``write_log``
        self.gone: list[Gone] = []
        self.news: set[tuple[str, str]] = set()  # where jobs have become pending
        self.returned: list[tuple[int, int]] = []  # lanes that jobs came back to, and when those are due

    def contested(self, writes: Iterable[Write]) -> set[str]:
        """Name the unique keys that must be looked up first."""
        return {
            entry.job.unique_key
            for write in writes
            if write.event is EventName.REDRIVEN and (entry := self.held.get(write.id)) and entry.job.unique_key
        }

    def judge(self, write: Write) -> Written:
        """Say what becomes of a write."""
        entry = self.held.get(write.id)
        if entry is None:
            status = self.elsewhere.get(write.id)
            return Written(Outcome.MISSING if status is None else Outcome.BUSY, status)
        before = entry.job
        now = max(self.now, before.updated_us)
        outcome = transitions.judge(before, write, now)
        if outcome is not Outcome.APPLIED:
            return Written(outcome, before.status)
        key = before.unique_key
        if write.event is EventName.REDRIVEN and key is not None:
            if key in self.keys:
                return Written(Outcome.CONFLICT, before.status)
            self.keys[key] = before.id
        after = entry.job = transitions.apply(before, write, now)
        event = transitions.log(before, after, write.event, now, actor=write.actor, note=write.note)
        self.now = now
        if key is not None and after.status in FINISHED and self.keys.get(key) == before.id:
            del self.keys[key]
        if write.to is None:
            self.gone.append(Gone(entry.seq, after, event))
            return Written(outcome, None)
        if after.status in FINISHED:
            kept = after.keep.after(after.status)
            entry.expires = now + kept
            if kept == 0:
                self.gone.append(Gone(entry.seq, after, transitions.prune(after, now)))
                return Written(outcome, after.status)
        else:
            entry.expires = None
            self.news.add((after.queue, after.task))
            self.returned.append((entry.lane, after.due_us))
        self.changed.append(entry)
        self.logged.append(event)
        self.events.append(logged(event, entry.seq))
        return Written(outcome, after.status)

    def in_order(self) -> list[list[Entry]]:
        """Give what has changed: those that end before those that begin again, so that a key is free by then."""
        ended = [entry for entry in self.changed if entry.expires is not None]
        begun = [entry for entry in self.changed if entry.expires is None]
        return [entries for entries in (ended, begun) if entries]


def logged(event: Event, seq: int) -> tuple[Any, ...]:
    """Make a row of ``write_log``."""
    return (
        seq, event.seq, event.event, event.from_, event.to, event.worker_id, event.actor, event.fence, event.attempts,
        event.due_us, event.lease_expires_us, event.at_us, event.note,
    )  # fmt: skip


def ended(row: rows.Row, now: int) -> Gone:
    """Say what is left of a finished job whose time is over, of a row of ``prune_find``."""
    seq, id, status, events, fence, attempts, due, updated, terms_json = row
    terms, keep = rows.decode_terms(terms_json)
    job = Job(id, "", "", b"", 0, Status(status), due, attempts, 1, fence, 0, updated, terms, keep, events=events)
    return Gone(seq, job, transitions.prune(job, max(now, updated)))
