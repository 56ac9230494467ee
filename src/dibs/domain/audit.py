"""Replay the audit log and prove on it what it can prove: promises 1-3, 6-9 and 12, and of 11 and 15 what it shows.

A ``Checker`` is fed jobs with their logs, one at a time and in any order, and keeps nothing of them but a hash of each
key. Of each job the first event that breaks a promise is reported: what follows it would only repeat the news.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import NamedTuple, TypeAlias

import msgspec

from dibs.domain.job import FINISHED, NEVER, UNFINISHED, Event, EventName, Job, Status
from dibs.domain.retry import SECOND

Item: TypeAlias = "tuple[Job | None, list[Event]]"
"""A job with its log; no job: it was pruned, and its last event is all that is left."""

PROMISES: dict[int, str] = {
    1: "at most one current claim per job",
    2: "fences strictly increase in a job's life",
    3: "a stale claim changes nothing",
    4: "no acknowledged job is lost, none appears that no one enqueued",
    5: "with workers alive, every due job ends",
    6: "attempts stay within max_attempts",
    7: "only the legal transitions",
    8: "never claimed before it is due",
    9: "one key, one job",
    10: "leased = returned, at most the limit",
    11: "extend never shortens",
    12: "the log, replayed, gives the job",
    13: "counts are derived from the jobs",
    15: "back-off stays in range and is spread",
}
"""What is promised, by number. The fourteenth, that resources stay bounded, leaves no trace in a log."""

LEGAL: dict[EventName, frozenset[tuple[Status | None, Status | None]]] = {
    EventName.ENQUEUED: frozenset({(None, Status.PENDING)}),
    EventName.CLAIMED: frozenset({(Status.PENDING, Status.CLAIMED)}),
    EventName.COMPLETED: frozenset({(Status.CLAIMED, Status.COMPLETED)}),
    EventName.RETRIED: frozenset({(Status.CLAIMED, Status.PENDING)}),
    EventName.FAILED: frozenset({(Status.CLAIMED, Status.FAILED)}),
    EventName.RELEASED: frozenset({(Status.CLAIMED, Status.PENDING)}),
    EventName.EXPIRED: frozenset({(Status.CLAIMED, Status.PENDING), (Status.CLAIMED, Status.FAILED)}),
    EventName.CANCELLED: frozenset((status, Status.CANCELLED) for status in UNFINISHED),
    EventName.REDRIVEN: frozenset((status, Status.PENDING) for status in FINISHED),
    EventName.PRUNED: frozenset((status, None) for status in FINISHED),
}
"""Every transition there is, by the event that is logged with it."""

COUNTED = frozenset({EventName.COMPLETED, EventName.RETRIED, EventName.FAILED, EventName.EXPIRED})
"""Events that are one more attempt."""

ENDINGS = COUNTED | {EventName.RELEASED}
"""Events that only the claim they belong to can bring about."""

_ANEW = frozenset({EventName.ENQUEUED, EventName.REDRIVEN})
_BEFORE, _AFTER = 4, 2  # how many neighbours of a broken event are shown
_SHORTEST_LIFE = 3  # enqueued, cancelled, pruned
_FOREVER = 2**63


class Flaw(NamedTuple):
    """Which promise is broken, and how."""

    promise: int
    sentence: str


class Replay:
    """The state that a log leads to, one event at a time. Without ``max_attempts`` their number is not judged."""

    __slots__ = ("attempts", "due_us", "fence", "job_id", "lease_us", "max_attempts", "seq", "status", "worker_id")

    def __init__(self, job_id: str, max_attempts: int | None) -> None:
        self.job_id = job_id
        self.max_attempts = _FOREVER if max_attempts is None else max_attempts
        self.seq = self.fence = self.attempts = self.due_us = self.lease_us = 0
        self.status: Status | None = None
        self.worker_id: str | None = None

    def step(self, event: Event) -> Flaw | None:
        """Go on by one event, unless it breaks a promise."""
        flaw = (
            self._check_number(event)
            or self._check_move(event)
            or self._check_fence(event)
            or self._check_attempts(event)
            or (self._check_claim(event) if event.event is EventName.CLAIMED else self._check_due(event))
            or (self._check_end(event) if self.status is Status.CLAIMED else None)
        )
        if flaw is None:
            self._go(event)
        return flaw

    def _go(self, event: Event) -> None:
        self.seq, self.status, self.fence, self.attempts = event.seq, event.to, event.fence, event.attempts
        self.due_us = event.due_us
        if event.event is EventName.CLAIMED:
            self.worker_id, self.lease_us = event.worker_id, event.lease_expires_us or 0

    def _check_number(self, event: Event) -> Flaw | None:
        if event.seq != self.seq + 1:
            return Flaw(12, f"event {event.seq} follows event {self.seq}: the log has a gap or is out of order")
        if event.job_id != self.job_id:
            return Flaw(12, f"an event of job {event.job_id} is in the log of job {self.job_id}")
        return None

    def _check_move(self, event: Event) -> Flaw | None:
        if self.status is Status.CLAIMED and event.event is EventName.CLAIMED:
            return Flaw(1, f"claimed by {event.worker_id} while {self.worker_id} holds it under fence {self.fence}")
        if event.from_ != self.status:
            return Flaw(7, f"{event.event} from {event.from_}, but the job was {self.status or 'not there'}")
        if (event.from_, event.to) not in LEGAL[event.event]:
            return Flaw(7, f"{event.event} does not lead from {event.from_} to {event.to}")
        return None

    def _check_fence(self, event: Event) -> Flaw | None:
        if event.event is EventName.CLAIMED:
            if event.fence == self.fence + 1:
                return None
            return Flaw(2, f"the fence goes from {self.fence} to {event.fence}: it grows by one with each claim")
        if event.fence == self.fence:
            return None
        if event.event in ENDINGS:
            return Flaw(3, f"{event.event} under fence {event.fence}, but the current claim's is {self.fence}")
        return Flaw(2, f"{event.event} carries fence {event.fence}, but the job's is {self.fence}")

    def _check_attempts(self, event: Event) -> Flaw | None:
        attempts = 0 if event.event in _ANEW else self.attempts + (event.event in COUNTED)
        if event.attempts != attempts:
            return Flaw(6, f"{event.event} makes it {event.attempts} attempts, but {attempts} were made")
        if attempts > self.max_attempts:
            return Flaw(6, f"{attempts} attempts, {self.max_attempts} at most")
        if event.to in UNFINISHED and attempts >= self.max_attempts:
            return Flaw(6, f"{event.event} though all {self.max_attempts} attempts were made")
        if event.event is EventName.EXPIRED and event.to is Status.FAILED and attempts < self.max_attempts < _FOREVER:
            return Flaw(7, f"an expiry after {attempts} of {self.max_attempts} attempts is tried again, not failed")
        return None

    def _check_claim(self, event: Event) -> Flaw | None:
        # A job that was held back is set free without an event: then the claim's own due time is all there is.
        due = event.due_us if self.due_us >= NEVER else max(self.due_us, event.due_us)
        if event.at_us < due:
            return Flaw(8, f"claimed {_seconds(due - event.at_us)} before it was due")
        if event.worker_id is None:
            return Flaw(12, "claimed, but the log does not say by whom")
        if event.lease_expires_us is None or event.lease_expires_us <= event.at_us:
            return Flaw(7, "claimed with a lease that is over as it begins")
        return None

    def _check_due(self, event: Event) -> Flaw | None:
        if event.event is EventName.REDRIVEN and event.due_us != event.at_us:
            return Flaw(7, "redriven, but not due at once")
        if event.event in COUNTED and event.to is Status.PENDING and event.due_us < event.at_us:
            return Flaw(15, f"the next attempt was due {_seconds(event.at_us - event.due_us)} before this one failed")
        if event.event is EventName.RELEASED and event.due_us != self.due_us and event.due_us < event.at_us:
            return Flaw(8, "released, but due neither as it was nor later")
        return None

    def _check_end(self, event: Event) -> Flaw | None:
        if event.worker_id != self.worker_id:
            return Flaw(12, f"ended a claim of {event.worker_id}, but {self.worker_id} holds it")
        lease_us = self.lease_us if event.lease_expires_us is None else event.lease_expires_us
        if lease_us < self.lease_us:
            return Flaw(11, f"the lease was {_seconds(self.lease_us - lease_us)} longer when it began")
        if event.event is EventName.EXPIRED and event.at_us < lease_us:
            return Flaw(7, f"reaped {_seconds(lease_us - event.at_us)} before the lease ran out")
        return None

    def compare(self, job: Job) -> Flaw | None:
        """Say in what the job differs from what its log leads to."""
        pairs = (
            ("status", job.status, self.status),
            ("fence", job.fence, self.fence),
            ("attempts", job.attempts, self.attempts),
            ("worker_id", job.worker_id, self.worker_id),
            ("events", job.events, self.seq),
        )
        for field, row, log in pairs:
            if row != log:
                return Flaw(12, f"the job's {field} is {row}, but its log leads to {log}")
        shortened = self.lease_us - (job.lease_expires_us or 0)
        if job.status is Status.CLAIMED and shortened > 0:
            return Flaw(11, f"the lease was {_seconds(shortened)} longer when it began")
        return None


class Violation(msgspec.Struct, frozen=True):
    """The first event of a job that breaks a promise; no event: the job itself does not fit its log."""

    promise: int
    sentence: str
    job_id: str
    event: Event | None = None
    neighbours: tuple[Event, ...] = ()  # the events around it in order, itself among them

    def __str__(self) -> str:
        marked = [row for row, event in enumerate(self.neighbours, 1) if event is self.event]
        table = align([_HEADER, *map(_cells, self.neighbours)], marked)
        return f"{headline(self.promise, self.sentence, self.job_id)}\n{table}"


class Report(msgspec.Struct, frozen=True):
    """What was looked at, and what was found wrong."""

    jobs: int
    events: int
    pruned: int  # jobs of which only the last event was left
    violations: tuple[Violation, ...] = ()
    broken: int = 0  # how many violations there are; not all of them are kept

    @property
    def ok(self) -> bool:
        """Say whether no promise was broken."""
        return not self.broken

    def __str__(self) -> str:
        looked_at = f"{self.jobs:,} jobs, {self.events:,} events, {self.pruned:,} pruned"
        return verdict(looked_at, self.violations, self.broken)


class _Holder(NamedTuple):
    """Who had a key: since when, and until when at least."""

    job_id: str
    since_us: int
    until_us: int


class Checker:
    """Takes jobs with their logs one at a time, and tells in the end whether they fit the promises."""

    def __init__(self, *, limit: int = 100) -> None:
        self._limit = limit  # violations that are kept; the rest are counted
        self._jobs = self._events = self._pruned = self._broken = 0
        self._violations: list[Violation] = []
        self._keys: dict[bytes, _Holder] = {}
        self._unique: dict[bytes, _Holder] = {}

    def add(self, job: Job | None, events: Sequence[Event], *, read_us: int | None = None) -> Violation | None:
        """Check one job with its log, and remember its keys; what is wrong with it is returned, too.

        ``read_us``: a time of the store's clock at or before the moment they were read. On a store that is in use a key
        may pass from a job that was read to one that comes later; that is no conflict. Without it the store is at rest.
        """
        self._jobs += job is not None
        self._pruned += job is None
        self._events += len(events)
        violation = _check_gone(events) if job is None else check_job(job, events)
        if violation is None and job is not None and (job.idempotency_key or job.unique_key):
            violation = self._check_keys(job, events, _FOREVER if read_us is None else read_us)
        if violation is not None:
            self._broken += 1
            if self._broken <= self._limit:
                self._violations.append(violation)
        return violation

    def report(self) -> Report:
        """Say what was found so far."""
        return Report(self._jobs, self._events, self._pruned, tuple(self._violations), self._broken)

    def _check_keys(self, job: Job, events: Sequence[Event], read_us: int) -> Violation | None:
        flaw = None
        if job.idempotency_key is not None:
            holder = _Holder(job.id, job.created_us, read_us)
            flaw = _take(self._keys, "idempotency key", job.idempotency_key, holder)
        if job.unique_key is not None and job.status in UNFINISHED:
            since = next(event.at_us for event in reversed(events) if event.event in _ANEW)
            flaw = flaw or _take(self._unique, "unique key", job.unique_key, _Holder(job.id, since, read_us))
        return None if flaw is None else violation_at(flaw, job.id, events, 0)


def check(items: Iterable[Item]) -> Report:
    """Check a store at rest, all of it at once."""
    checker = Checker()
    for job, events in items:
        checker.add(job, events)
    return checker.report()


def check_job(job: Job, events: Sequence[Event]) -> Violation | None:
    """Replay one job's log, and compare it with what it leads to."""
    return _replay(job.id, job, events)


def violation_at(flaw: Flaw, job_id: str, events: Sequence[Event], index: int | None) -> Violation:
    """Show a flaw at its event, with the neighbours; ``None``: at the end of the log."""
    if index is None or not events:
        return Violation(*flaw, job_id, None, tuple(events[-_BEFORE:]))
    neighbours = tuple(events[max(0, index - _BEFORE) : index + 1 + _AFTER])
    return Violation(*flaw, job_id, events[index], neighbours)


def _replay(job_id: str, job: Job | None, events: Sequence[Event]) -> Violation | None:
    state = Replay(job_id, None if job is None else job.max_attempts)
    for index, event in enumerate(events):
        flaw = state.step(event)
        if flaw is not None:
            return violation_at(flaw, job_id, events, index)
    flaw = None if job is None else state.compare(job)
    return None if flaw is None else violation_at(flaw, job_id, events, None)


def _check_gone(events: Sequence[Event]) -> Violation | None:
    """Check what is left of a job that is no longer there: a ``pruned`` event, perhaps with all that came before it."""
    if not events:
        return None
    last = events[-1]
    if last.event is not EventName.PRUNED:
        return violation_at(Flaw(4, "the job is gone, but was not pruned"), last.job_id, events, len(events) - 1)
    if len(events) > 1:
        return _replay(last.job_id, None, events)
    if (last.from_, last.to) not in LEGAL[EventName.PRUNED]:
        return violation_at(Flaw(7, f"pruned does not lead from {last.from_} to {last.to}"), last.job_id, events, 0)
    if last.seq < _SHORTEST_LIFE:
        return violation_at(Flaw(12, f"pruned as event {last.seq}: no life is that short"), last.job_id, events, 0)
    return None


def _take(holders: dict[bytes, _Holder], what: str, key: str, new: _Holder) -> Flaw | None:
    digest = blake2b(key.encode(errors="surrogatepass"), digest_size=16).digest()
    old = holders.setdefault(digest, new)
    if old.job_id == new.job_id:
        return None
    first, second = sorted((old, new), key=lambda holder: holder.since_us)
    holders[digest] = second
    if second.since_us >= first.until_us:
        return None
    return Flaw(9, f"jobs {old.job_id} and {new.job_id} have the same {what} at the same time")


# Rendering, shared with the history checker

_HEADER = ("seq", "event", "from", "to", "worker", "actor", "fence", "attempts", "due", "lease end", "at", "note")


def headline(promise: int, sentence: str, job_id: str) -> str:
    """Say in one line which promise is broken, and how."""
    job = f"job {job_id}: " if job_id else ""
    return f"promise {promise} ({PROMISES[promise]}) is broken: {job}{sentence}"


def verdict(looked_at: str, violations: Sequence[object], broken: int) -> str:
    """Say what was looked at and found."""
    if not broken:
        return f"{looked_at}: every promise kept"
    left_out = [f"… and {broken - len(violations):,} more"] if broken > len(violations) else []
    return "\n\n".join([f"{looked_at}: {broken:,} broken", *map(str, violations), *left_out])


def align(rows: Sequence[Sequence[str]], marked: Collection[int]) -> str:
    """Lay rows out as a table, and mark some."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for index, row in enumerate(rows):
        cells = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append(f"{'>' if index in marked else ' '} {cells}".rstrip())
    return "\n".join(lines)


def _cells(event: Event) -> tuple[str, ...]:
    return (
        str(event.seq),
        event.event,
        event.from_ or "-",
        event.to or "-",
        event.worker_id or "-",
        event.actor or "-",
        str(event.fence),
        str(event.attempts),
        "held" if event.due_us >= NEVER else offset(event.due_us - event.at_us),
        "-" if event.lease_expires_us is None else offset(event.lease_expires_us - event.at_us),
        moment(event.at_us),
        event.note.splitlines()[0] if event.note else "",
    )


def moment(us: int) -> str:
    """Write a time of the store's clock for people; also one that no calendar has."""
    try:
        return datetime.fromtimestamp(us / SECOND, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    except (ValueError, OverflowError, OSError):
        return f"{us} us"


def offset(us: int) -> str:
    """Write a time as seconds from another."""
    return f"{us / SECOND:+.6f}s"


def _seconds(us: int) -> str:
    return f"{us / SECOND:.6f} s"
