"""Prove promises 1-13, and 15, on what clients saw and on the audit log of the store they used.

Operations are compared with each other by the recorder's clock, events of one job by their number in its log. The two
are tied together by what names them: job, fence, verb. All of it is sorting and one sweep a job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Final

import msgspec

from dibs.domain.audit import Checker, Flaw, Item, verdict
from dibs.domain.job import NEVER, UNFINISHED, Event, Job, Status
from dibs.store import EXACT_COUNT
from dibs.testing.history.jobs import check_absent, check_gone, check_job
from dibs.testing.history.record import History, Operation
from dibs.testing.history.render import Violation, in_log, in_view
from dibs.testing.history.touches import Accounts, Broken, Index, Touch, asked, entries

_FOREVER: Final = 2**63
_ENOUGH: Final = 20  # back-offs drawn: if that many are all alike, they are not drawn at all


class Report(msgspec.Struct, frozen=True):
    """What was looked at, and what was found wrong."""

    operations: int
    unknown: int  # operations whose reply never came
    jobs: int
    events: int
    pruned: int
    violations: tuple[Violation, ...] = ()
    broken: int = 0  # how many violations there are; not all of them are kept

    @property
    def ok(self) -> bool:
        """Say whether no promise was broken."""
        return not self.broken

    def __str__(self) -> str:
        looked_at = f"{self.operations:,} operations ({self.unknown:,} unanswered), {self.jobs:,} jobs, "
        looked_at += f"{self.events:,} events, {self.pruned:,} pruned"
        return verdict(looked_at, self.violations, self.broken)


def check(
    history: History,
    audit: Iterable[Item],
    *,
    final: bool = True,
    complete: bool = True,
    now_us: int | None = None,
    slack_us: int = 0,
    limit: int = 100,
) -> Report:
    """Check what clients saw against the store's log, read when all was at rest.

    Args:
        history: every operation of every client.
        audit: the store's jobs with their logs, as ``Store.audit`` gives them; all of them.
        final: workers were alive until nothing was left to do, so every due job must have ended.
        complete: every client was recorded, so nothing may be in the log that no operation accounts for.
        now_us: the store's time when the audit was read; the latest event's if not given.
        slack_us: how far apart the store's times of two jobs may be from the order in which they were written.
        limit: how many violations are kept; the rest are counted.
    """
    return _Check(history, final=final, complete=complete, slack_us=slack_us, limit=limit).run(audit, now_us)


class _Check:
    def __init__(self, history: History, *, final: bool, complete: bool, slack_us: int, limit: int) -> None:
        self._history, self._final, self._slack_us, self._limit = history, final, slack_us, limit
        self._accounts = Accounts(complete=complete)
        self._index = Index(history, self._accounts)
        self._log = Checker(limit=0)
        self._violations: list[Violation] = []
        self._broken = 0
        self._live: dict[str, int] = {}  # id -> when it was made
        self._gone: dict[str, int] = {}  # id -> when it was pruned
        self._states: Counter[tuple[str, Status]] = Counter()
        self._pruned: Counter[Status | None] = Counter()
        self._unfinished: list[tuple[Job, list[Event], Sequence[Touch]]] = []
        self._unique: dict[bytes, list[tuple[int, int, str]]] = {}
        self._latest_us = 0

    def run(self, audit: Iterable[Item], now_us: int | None) -> Report:
        for broken in self._index.broken:
            self._add(in_view(broken, ""))
        for job, events in audit:
            if job is None:
                self._take_gone(events)
            else:
                self._take(job, events)
        self._check_absent()
        self._check_keys()
        self._check_unique()
        if self._final:
            self._check_ended(self._latest_us if now_us is None else now_us)
        self._check_counts()
        self._check_spread()
        return self._report()

    def _report(self) -> Report:
        log = self._log.report()
        operations = self._history.operations
        unknown = sum(operation.returned is None for operation in operations)
        violations = tuple(self._violations)
        return Report(len(operations), unknown, log.jobs, log.events, log.pruned, violations, self._broken)

    def _add(self, violation: Violation) -> None:
        self._broken += 1
        if self._broken <= self._limit:
            self._violations.append(violation)

    def _flag(self, flaw: Flaw, job_id: str = "", operations: Sequence[Operation] = ()) -> None:
        touches = [Touch(operation, "") for operation in operations]
        broken = Broken(flaw, operation=operations[-1] if operations else None)
        self._add(in_view(broken, job_id, (), touches))

    # Job by job

    def _take(self, job: Job, events: list[Event]) -> None:
        if job.id in self._live:
            self._flag(Flaw(9, "there are two jobs of this id"), job.id)
            return
        touches = self._index.touches.pop(job.id, [])
        self._live[job.id] = job.created_us
        self._states[job.queue, job.status] += 1
        wrong = self._log.add(job, events)
        if wrong is not None:
            self._add(in_log(wrong, events, touches))
            return
        self._latest_us = max(self._latest_us, events[-1].at_us)
        if job.unique_key is not None:
            self._hold(job, events)
        if job.status in UNFINISHED and self._final:
            self._unfinished.append((job, events, touches))
        try:
            check_job(job, events, touches, self._accounts)
        except Broken as broken:
            self._add(in_view(broken, job.id, events, touches))

    def _take_gone(self, events: list[Event]) -> None:
        wrong = self._log.add(None, events)
        if not events:
            return
        last = events[-1]
        touches = self._index.touches.pop(last.job_id, None)
        if touches is None and last.job_id in self._live:
            return  # its id is used again
        self._gone[last.job_id] = last.at_us
        self._pruned[last.from_] += 1
        self._latest_us = max(self._latest_us, last.at_us)
        if wrong is not None:
            self._add(in_log(wrong, events, touches or []))
            return
        try:
            check_gone(last, touches or [], self._accounts)
        except Broken as broken:
            self._add(in_view(broken, last.job_id, [last], touches or []))

    def _check_absent(self) -> None:
        for job_id, touches in self._index.touches.items():
            try:
                check_absent(touches)
            except Broken as broken:
                self._add(in_view(broken, job_id, (), touches))

    # Keys

    def _check_keys(self) -> None:
        """See that no two jobs were made under one idempotency key, unless the first was gone by then."""
        first: dict[str, tuple[str, Operation]] = {}
        for operation in self._index.enqueues:
            for sent, told in zip(asked(operation), entries(operation.result), strict=False):
                key = sent.get("idempotency_key")
                if key is None or (told.get("duplicate") and _found_otherwise(sent, told)):
                    continue
                job_id, by = first.setdefault(key, (told["id"], operation))
                if job_id != told["id"] and not self._freed(job_id, told["id"]):
                    flaw = Flaw(9, f"one idempotency key made two jobs, {job_id} and {told['id']}")
                    self._flag(flaw, told["id"], [by, operation])
                first[key] = (told["id"], operation)

    def _freed(self, first: str, second: str) -> bool:
        """Say whether one of two jobs may have been pruned before the other was made; whichever came first."""
        for one, other in ((first, second), (second, first)):
            if one in self._gone and self._gone[one] <= self._live.get(other, _FOREVER) + self._slack_us:
                return True
        return False

    def _hold(self, job: Job, events: Sequence[Event]) -> None:
        key = blake2b((job.unique_key or "").encode(errors="surrogatepass"), digest_size=16).digest()
        held = self._unique.setdefault(key, [])
        since: int | None = None
        for event in events:
            if event.to in UNFINISHED:
                since = event.at_us if since is None else since
            elif since is not None:
                held.append((since, event.at_us, job.id))
                since = None
        if since is not None:
            held.append((since, _FOREVER, job.id))

    def _check_unique(self) -> None:
        for held in self._unique.values():
            held.sort()
            for (_, until, first), (since, _, second) in pairwise(held):
                if first != second and since + self._slack_us < until:
                    self._flag(Flaw(9, f"unfinished at the same time as job {first}, which has its unique key"), second)

    # The end

    def _check_ended(self, now_us: int) -> None:
        for job, events, touches in self._unfinished:
            waiting = job.status is Status.PENDING and (job.due_us > now_us or job.due_us >= NEVER)
            if waiting or job.queue in self._index.paused:
                continue
            claimed = job.status is Status.CLAIMED
            what = "claimed, and its worker never ended it" if claimed else "due, and no one took it"
            self._add(in_view(Broken(Flaw(5, f"still {what}"), event=len(events) - 1), job.id, events, touches))

    def _check_counts(self) -> None:
        """Compare counts that were read when all was at rest with the jobs themselves."""
        for operation in self._index.counts:
            if operation.invoked >= self._index.quiet_since:
                told = operation.result
                wrong = self._miscounted(told, operation.arguments.get("queue"))
                if wrong:
                    self._flag(Flaw(13, wrong), "", [operation])

    def _miscounted(self, told: dict[str, Any], queue: str | None) -> str | None:
        derived: Counter[Status] = Counter()
        for (name, status), number in self._states.items():
            if queue in {None, name}:
                derived[status] += number
        if not told.get("exact", True):
            most = max((derived[status] + self._pruned[status] for status in Status), default=0)
            return None if most > EXACT_COUNT else f"counts are called inexact, with at most {most:,} jobs in a state"
        counted = {status: told.get(str(status), 0) for status in Status}
        counted[Status.PENDING] += told.get("scheduled", 0)  # which of them are due depends on when one looks
        for status, number in counted.items():
            pruned = self._pruned[status]  # perhaps since they were counted
            if not derived[status] <= number <= derived[status] + pruned:
                return f"{number:,} jobs were counted as {status}, but there are {derived[status]:,}"
        return None

    def _check_spread(self) -> None:
        drawn = self._accounts.fractions
        if len(drawn) >= _ENOUGH and min(drawn) == max(drawn):
            self._flag(Flaw(15, f"{len(drawn)} back-offs are all {drawn[0]:.3f} of their ceiling: they are not spread"))


def _found_otherwise(sent: dict[str, Any], told: dict[str, Any]) -> bool:
    """Say whether a duplicate may have been found by its id or its unique key, whatever its idempotency key is."""
    return sent.get("id") in {None, told["id"]} or sent.get("unique_key") is not None
