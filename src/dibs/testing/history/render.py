"""Show what is wrong: the event or operation, and what happened to the job around it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import msgspec

from dibs.domain.audit import Violation as LogViolation
from dibs.domain.audit import align, headline, moment, offset
from dibs.domain.job import NEVER, Event
from dibs.testing.history.record import Answer, Operation
from dibs.testing.history.touches import KINDS, Broken, Touch

_BEFORE, _AFTER = 6, 3  # how many neighbours are shown


class Violation(msgspec.Struct, frozen=True):
    """The first thing that breaks a promise to a job, in its log or in what a client was told."""

    promise: int
    sentence: str
    job_id: str  # empty if it is about no job in particular
    event: Event | None = None
    operation: Operation | None = None
    neighbours: tuple[Event | Operation, ...] = ()  # around it, in order, itself among them

    def __str__(self) -> str:
        first = min((item.invoked for item in self.neighbours if isinstance(item, Operation)), default=0)
        rows = [_event_cells(item) if isinstance(item, Event) else _call_cells(item, first) for item in self.neighbours]
        told = headline(self.promise, self.sentence, self.job_id)
        if not rows:
            return told
        marked = [index for index, item in enumerate(self.neighbours) if item is self.event or item is self.operation]
        return f"{told}\n{align(rows, marked)}"


def in_log(violation: LogViolation, events: Sequence[Event], touches: Sequence[Touch]) -> Violation:
    """Show what the log itself is wrong about, with the operations around it."""
    timeline = _interleave(events, touches)
    around = _around(timeline, violation.event) if violation.event is not None else tuple(timeline[-_BEFORE:])
    return Violation(violation.promise, violation.sentence, violation.job_id, violation.event, None, around)


def in_view(broken: Broken, job_id: str, events: Sequence[Event] = (), touches: Sequence[Touch] = ()) -> Violation:
    """Show what a client was told that the log does not bear out."""
    event = None if broken.event is None or broken.event >= len(events) else events[broken.event]
    timeline = _interleave(events, touches)
    if broken.operation is not None and not any(item is broken.operation for item in timeline):
        timeline.append(broken.operation)
    around = _around(timeline, event or broken.operation)
    return Violation(*broken.flaw, job_id, event, broken.operation, around)


def _interleave(events: Sequence[Event], touches: Sequence[Touch]) -> list[Event | Operation]:
    """Put events and operations in one order: each event right after the call that brought it about.

    The two have different clocks; what ties them is the fence and the verb. An event without a call follows the last.
    """
    asked: dict[tuple[str, int], list[int]] = {}
    for touch in touches:
        if touch.outcome not in {"lost", "refused"}:
            asked.setdefault((touch.operation.kind, touch.fence), []).append(touch.operation.invoked)
    for times in asked.values():
        times.sort()
    timeline: list[tuple[int, int, int, Event | Operation]] = []
    latest = -1
    for event in events:
        latest = max(latest, _asked_at(event, asked, latest))
        timeline.append((latest, 1, event.seq, event))
    operations = {id(touch.operation): touch.operation for touch in touches}.values()
    timeline += [(operation.invoked, 0, operation.number, operation) for operation in operations]
    timeline.sort(key=lambda entry: entry[:3])
    return [entry[3] for entry in timeline]


def _asked_at(event: Event, asked: dict[tuple[str, int], list[int]], latest: int) -> int:
    kind = KINDS[event.event]
    by_claim = asked.get((kind, event.fence)) if event.fence else None
    if by_claim:
        return by_claim[0]
    times = asked.get((kind, 0), [])  # asked for without a claim: the next one is taken for it
    index = bisect_left(times, latest)
    return times[index] if index < len(times) else -1


def _around(timeline: Sequence[Event | Operation], marked: Event | Operation | None) -> tuple[Event | Operation, ...]:
    index = next((index for index, item in enumerate(timeline) if item is marked), len(timeline))
    return tuple(timeline[max(0, index - _BEFORE) : index + 1 + _AFTER])


def _event_cells(event: Event) -> tuple[str, ...]:
    due = "held back" if event.due_us >= NEVER else f"due {offset(event.due_us - event.at_us)}"
    lease = "" if event.lease_expires_us is None else f", lease {offset(event.lease_expires_us - event.at_us)}"
    move = f"{event.from_ or '-'} to {event.to or '-'}"
    what = f"{move}, attempts {event.attempts}, {due}{lease}, at {moment(event.at_us)}"
    return "log", f"#{event.seq}", event.event, event.worker_id or event.actor or "-", f"fence {event.fence}", what


def _call_cells(operation: Operation, first: int) -> tuple[str, ...]:
    arguments = operation.arguments
    asked = f"asked {offset((operation.invoked - first) // 1000)}"
    if operation.returned is None:
        told = "never answered"
    else:
        word = "refused: " if operation.answer is Answer.REFUSED else ""
        told = f"answered {offset((operation.returned - first) // 1000)}: {word}{_short(operation.result)}"
    fence = f"fence {arguments['fence']}" if "fence" in arguments else "-"
    worker = arguments.get("worker_id") or operation.process
    return "call", operation.process, operation.kind, str(worker), fence, f"{asked}, {told}"


def _short(result: Any) -> str:
    text = msgspec.json.encode(result, enc_hook=str).decode()
    return text if len(text) <= 120 else text[:119] + "…"
