"""Sort a history by job: who did what to it, what came of it, and what an operation without a reply may have done."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, NamedTuple

from dibs.domain.audit import Flaw
from dibs.domain.job import EventName, Outcome
from dibs.testing.history.record import Answer, History, Operation

KINDS: Final = {
    EventName.ENQUEUED: "enqueue",
    EventName.CLAIMED: "claim",
    EventName.COMPLETED: "complete",
    EventName.RETRIED: "fail",
    EventName.FAILED: "fail",
    EventName.RELEASED: "release",
    EventName.EXPIRED: "expire",
    EventName.CANCELLED: "cancel",
    EventName.REDRIVEN: "redrive",
    EventName.PRUNED: "purge",
}
"""The kind of operation that brings an event about."""

SETTLES = frozenset({"complete", "fail", "release", "expire"})
ORDERS = frozenset({"cancel", "redrive", "purge"})
MUTATIONS = SETTLES | ORDERS | {"enqueue", "claim"}


class Touch(NamedTuple):
    """What one operation did to one job.

    ``outcome`` of an enqueue: new, duplicate (of the id that was sent), other (a job found by its key), or unknown; of
    a claim: returned; of all others what was answered, or unknown.
    """

    operation: Operation
    outcome: str
    fence: int = 0
    lease_us: int | None = None


class Broken(Exception):
    """The first thing wrong with a job, and where."""

    def __init__(self, flaw: Flaw, *, event: int | None = None, operation: Operation | None = None) -> None:
        super().__init__(flaw.sentence)
        self.flaw, self.event, self.operation = flaw, event, operation


class Accounts:
    """What the operations can account for that does not name a job.

    ``complete``: every client was recorded, so that what no operation accounts for should not be there.
    """

    def __init__(self, *, complete: bool) -> None:
        self.complete = complete
        self.anonymous = 0  # jobs that enqueues without an id and without a reply may have made
        self.claims: Counter[str | None] = Counter()  # jobs that claims without a reply may have leased, by worker
        self.bulk: set[str] = set()  # orders that named no job, but a filter
        self.fractions: list[float] = []  # of the ceiling: every back-off that was drawn

    def made(self) -> bool:
        """Account for a job that no enqueue names."""
        self.anonymous -= 1
        return self.anonymous >= 0 or not self.complete

    def leased(self, worker_id: str | None) -> bool:
        """Account for a claim that was returned to no one."""
        for name in (worker_id, None):
            if self.claims[name] > 0:
                self.claims[name] -= 1
                return True
        return not self.complete


class Index:
    """A history by job."""

    def __init__(self, history: History, accounts: Accounts) -> None:
        self.touches: dict[str, list[Touch]] = {}
        self.broken: list[Broken] = []  # what is wrong with operations as such
        self.counts: list[Operation] = []
        self.paused: set[str] = set()
        self.enqueues: list[Operation] = []
        self.quiet_since = 0  # when the last reply to a change came
        self._accounts = accounts
        for operation in history.operations:
            self._add(operation)

    def _add(self, operation: Operation) -> None:
        kind = operation.kind
        if kind in MUTATIONS:
            self.quiet_since = max(self.quiet_since, operation.returned or operation.invoked)
        if kind == "claim":
            self._add_claim(operation)
        elif kind == "enqueue":
            self._add_enqueue(operation)
        elif kind in SETTLES or kind == "extend":
            lease_us = operation.result.get("lease_expires_us") if isinstance(operation.result, dict) else None
            touch = Touch(operation, outcome(operation), operation.arguments["fence"], lease_us)
            self._touch(operation.arguments["id"], touch)
        elif kind in ORDERS:
            self._add_order(operation)
        elif kind == "counts" and operation.answer is Answer.OK:
            self.counts.append(operation)
        elif kind == "pause" and outcome(operation) != "refused":
            self.paused.add(operation.arguments["queue"])
        elif kind == "resume" and outcome(operation) == "applied":
            self.paused.discard(operation.arguments["queue"])

    def _touch(self, job_id: str, touch: Touch) -> None:
        touches = self.touches.get(job_id)
        if touches is None:
            self.touches[job_id] = [touch]
        else:
            touches.append(touch)

    def _add_claim(self, operation: Operation) -> None:
        limit = operation.arguments.get("limit", 1)
        if operation.answer is Answer.UNKNOWN:
            self._accounts.claims[operation.arguments.get("worker_id")] += limit
            return
        if operation.answer is Answer.REFUSED:
            return
        jobs = entries(operation.result)
        if len(jobs) > limit:
            flaw = Flaw(10, f"a claim of {limit} at most returned {len(jobs)}")
            self.broken.append(Broken(flaw, operation=operation))
        for job in jobs:
            self._touch(job["id"], Touch(operation, "returned", job["fence"], job.get("lease_expires_us")))

    def _add_enqueue(self, operation: Operation) -> None:
        if operation.answer is Answer.REFUSED:
            return
        self.enqueues.append(operation)
        sent = asked(operation)
        if operation.answer is Answer.UNKNOWN:
            for job in sent:
                if job.get("id") is None:
                    self._accounts.anonymous += 1
                else:
                    self._touch(job["id"], Touch(operation, "unknown"))
            return
        answered = entries(operation.result)
        for index, job in enumerate(answered):
            sent_id = sent[index].get("id") if index < len(sent) else None
            same = "duplicate" if sent_id in {None, job["id"]} else "other"
            self._touch(job["id"], Touch(operation, same if job.get("duplicate") else "new"))
        if len(answered) < len(sent):
            flaw = Flaw(4, f"an enqueue of {len(sent)} jobs was acknowledged for {len(answered)}")
            self.broken.append(Broken(flaw, operation=operation))

    def _add_order(self, operation: Operation) -> None:
        ids = [job["id"] for job in entries(operation.arguments.get("id", operation.arguments.get("ids")))]
        if not ids:
            self._accounts.bulk.add(operation.kind)
        for id in ids:
            self._touch(id, Touch(operation, outcome(operation) if len(ids) == 1 else "unknown"))


def entries(value: Any) -> list[dict[str, Any]]:
    """Read jobs, one or several, as a call gave them: with their fields, or by id alone."""
    if value is None:
        return []
    values = value if isinstance(value, list) else [value]
    return [{"id": item} if isinstance(item, str) else item for item in values]


def asked(operation: Operation) -> list[dict[str, Any]]:
    """Say which jobs an enqueue sent."""
    jobs = operation.arguments.get("jobs")
    return [operation.arguments] if jobs is None else entries(jobs)


def outcome(operation: Operation) -> str:
    """Say what became of one write: what was answered, or ``unknown``. A reply that says nothing means applied."""
    if operation.answer is Answer.UNKNOWN or operation.result == Outcome.IN_DOUBT.value:
        return "unknown"
    if operation.answer is Answer.REFUSED:
        return "lost" if operation.result == "lease_lost" else "refused"
    return operation.result if isinstance(operation.result, str) else "applied"
