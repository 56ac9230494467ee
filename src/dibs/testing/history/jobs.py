"""One job: does what clients were told fit its log, and could it all have happened in the order of the log?

Every event of the log is given the span of time in which it can have happened: between the invocation and the reply
of the operation that brought it about. Where points in these spans exist that follow the order of the log, clients saw
what the log says; one sweep finds out. An event that no operation accounts for (an expiry) may have happened any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from dibs.domain.audit import ENDINGS, Flaw
from dibs.domain.job import Event, EventName, Job, Status
from dibs.domain.retry import SECOND
from dibs.testing.history.record import Operation
from dibs.testing.history.touches import KINDS, SETTLES, Accounts, Broken, Touch

_FOREVER: Final = 2**63

VERBS: Final = {verb: frozenset(event for event, kind in KINDS.items() if kind == verb) for verb in SETTLES}
"""The events that a verb may be logged as."""

_ORDERS: Final = (("cancel", EventName.CANCELLED), ("redrive", EventName.REDRIVEN))


class Span(NamedTuple):
    """When something can have happened."""

    since: int
    until: int
    operation: Operation | None = None


_ANY_TIME: Final = Span(-1, _FOREVER)


def check_job(job: Job, events: Sequence[Event], touches: Sequence[Touch], accounts: Accounts) -> None:
    """Compare a job and its log, which is sound in itself, with what clients saw of it."""
    _Comparison(job, events, touches, accounts).run()


def check_gone(event: Event, touches: Sequence[Touch], accounts: Accounts) -> None:
    """Compare what clients saw with the last event of a job that was pruned: all that is left of it."""
    _made(touches, accounts, 0)
    grants = _grants(touches)
    settled = [touch for touch in touches if touch.operation.kind in SETTLES and touch.outcome == "applied"]
    for touch in (*grants.values(), *settled):
        if touch.fence > event.fence:
            promise = 10 if touch.operation.kind == "claim" else 3
            flaw = Flaw(promise, f"fence {touch.fence} was used, but the job was pruned under fence {event.fence}")
            raise Broken(flaw, event=0, operation=touch.operation)
    steps = [(touch.fence, 0, EventName.CLAIMED, _span(touch)) for touch in grants.values()]
    steps += [(touch.fence, 1, next(iter(VERBS[touch.operation.kind])), _span(touch)) for touch in settled]
    steps.sort(key=lambda step: step[:2])
    _sweep([step[2] for step in steps], [step[3] for step in steps])


def check_absent(touches: Iterable[Touch]) -> None:
    """See that no one was told of a job that is neither there nor was pruned."""
    for touch in touches:
        if touch.outcome in {"new", "duplicate", "other", "returned", "applied", "repeated"}:
            told = "acknowledged" if touch.operation.kind == "enqueue" else f"{touch.operation.kind}: {touch.outcome}"
            raise Broken(Flaw(4, f"{told}, but it is neither there nor was it pruned"), operation=touch.operation)


class _Comparison:
    def __init__(self, job: Job, events: Sequence[Event], touches: Sequence[Touch], accounts: Accounts) -> None:
        self._job, self._events, self._touches, self._accounts = job, events, touches, accounts
        self._spans: list[Span] = [_ANY_TIME] * len(events)
        self._claimed: dict[int, int] = {}  # fence -> index of the event that began the claim
        self._ended: dict[int, int] = {}  # … that ended it
        for index, event in enumerate(events):
            if event.event is EventName.CLAIMED:
                self._claimed[event.fence] = index
            elif event.from_ is Status.CLAIMED:
                self._ended[event.fence] = index

    def run(self) -> None:
        self._spans[0] = _made(self._touches, self._accounts, 0)
        grants = _grants(self._touches)
        self._compare_claims(grants)
        self._compare_settles(grants)
        for kind, name in _ORDERS:
            self._compare_orders(kind, name)
        _sweep([event.event for event in self._events], self._spans)
        extends = [touch for touch in self._touches if touch.operation.kind == "extend" and touch.outcome == "applied"]
        if extends:
            self._compare_extends(extends)
        self._compare_leases(grants, extends)
        self._compare_backoff()

    # Claims

    def _compare_claims(self, grants: dict[int, Touch]) -> None:
        for fence, touch in grants.items():
            index = self._claimed.get(fence)
            worker_id = touch.operation.arguments.get("worker_id")
            if index is None:
                flaw = Flaw(10, f"returned under fence {fence}, but the log has no such claim")
                raise Broken(flaw, operation=touch.operation)
            if worker_id not in {None, self._events[index].worker_id}:
                flaw = Flaw(10, f"leased to {self._events[index].worker_id}, but returned to {worker_id}")
                raise Broken(flaw, event=index, operation=touch.operation)
            self._spans[index] = _span(touch)
        for fence, index in self._claimed.items():
            if fence not in grants and not self._accounts.leased(self._events[index].worker_id):
                raise Broken(Flaw(10, f"leased under fence {fence}, but returned to no one"), event=index)

    # Settling

    def _compare_settles(self, grants: dict[int, Touch]) -> None:
        by_event: dict[int, list[Touch]] = {}
        for touch in self._touches:
            if touch.operation.kind not in SETTLES:
                continue
            index = self._ended.get(touch.fence)
            if index is not None and self._events[index].event in VERBS[touch.operation.kind]:
                by_event.setdefault(index, []).append(touch)
            elif touch.outcome in {"applied", "repeated"}:
                self._refute(touch, index)
        for index in self._ended.values():
            self._compare_end(index, by_event.get(index, []), grants)

    def _refute(self, touch: Touch, index: int | None) -> None:
        """Say what happened to a claim whose holder was told something else."""
        what = "never ended" if index is None else f"ended as {self._events[index].event}"
        if touch.fence not in self._claimed:
            what = "was never made"
        told = f"{touch.operation.kind} under fence {touch.fence} was answered {touch.outcome}"
        raise Broken(Flaw(3, f"{told}, but that claim {what}"), event=index, operation=touch.operation)

    def _compare_end(self, index: int, touches: list[Touch], grants: dict[int, Touch]) -> None:
        event = self._events[index]
        applied = [touch for touch in touches if touch.outcome == "applied"]
        others = [touch for touch in touches if touch.outcome in {"repeated", "unknown"}]
        if len(applied) > 1:
            flaw = Flaw(3, f"{event.event} once under fence {event.fence}, but {len(applied)} were told it was they")
            raise Broken(flaw, event=index, operation=applied[1].operation)
        if applied:
            self._spans[index] = _span(applied[0])
        elif others:  # a reply was lost, and someone, perhaps by itself, asked again
            since = min(touch.operation.invoked for touch in others)
            repeated = (_span(touch).until for touch in others if touch.outcome == "repeated")
            which = others[0].operation if len(others) == 1 else None
            self._spans[index] = Span(since, min(repeated, default=_FOREVER), which)
        else:
            self._compare_unasked(index, touches, grants)

    def _compare_unasked(self, index: int, lost: list[Touch], grants: dict[int, Touch]) -> None:
        event = self._events[index]
        if lost and event.event is not EventName.EXPIRED:
            flaw = Flaw(3, f"{event.event} under fence {event.fence}, but the one who asked was told {lost[0].outcome}")
            raise Broken(flaw, event=index, operation=lost[0].operation)
        # A claim whose caller gave up is released for it, so its release was asked for by no one.
        given_up = event.event is EventName.RELEASED and event.fence not in grants
        asked_for = event.event in ENDINGS and event.event is not EventName.EXPIRED
        if asked_for and not given_up and self._accounts.complete:
            raise Broken(Flaw(3, f"{event.event} under fence {event.fence}, but no one asked for it"), event=index)

    # Cancelling and redriving

    def _compare_orders(self, kind: str, name: EventName) -> None:
        touches = [touch for touch in self._touches if touch.operation.kind == kind]
        logged = [index for index, event in enumerate(self._events) if event.event is name]
        if not touches and not logged:
            return
        applied = [touch for touch in touches if touch.outcome == "applied"]
        if len(applied) > len(logged):
            flaw = Flaw(12, f"{kind} was applied {len(applied)} times, but the log has it {len(logged)} times")
            raise Broken(flaw, operation=applied[-1].operation)
        possible = sum(touch.outcome in {"applied", "repeated", "unknown"} for touch in touches)
        if len(logged) > possible and self._accounts.complete and kind not in self._accounts.bulk:
            raise Broken(Flaw(7, f"{name}, but no one asked for it"), event=logged[possible])
        if len(applied) == len(logged):
            for index, span in zip(logged, _in_turn([_span(touch) for touch in applied]), strict=True):
                self._spans[index] = span

    # Extending

    def _compare_extends(self, extends: Sequence[Touch]) -> None:
        # Nothing that follows the end of a claim may be known to have happened before the claim was extended.
        earliest = [_FOREVER] * (len(self._spans) + 1)
        for index in range(len(self._spans) - 1, -1, -1):
            earliest[index] = min(earliest[index + 1], self._spans[index].until)
        for touch in extends:
            began, ended = self._claimed.get(touch.fence), self._ended.get(touch.fence)
            if began is None:
                flaw = Flaw(3, f"extended under fence {touch.fence}, but that claim was never made")
                raise Broken(flaw, operation=touch.operation)
            if ended is not None and earliest[ended] < touch.operation.invoked:
                flaw = Flaw(3, f"extended under fence {touch.fence} after that claim had ended")
                raise Broken(flaw, event=ended, operation=touch.operation)
            if _span(touch).until < self._spans[began].since:
                flaw = Flaw(3, f"extended under fence {touch.fence} before that claim was made")
                raise Broken(flaw, event=began, operation=touch.operation)

    def _compare_leases(self, grants: dict[int, Touch], extends: Sequence[Touch]) -> None:
        by_fence: dict[int, list[Touch]] = {}
        for touch in (*grants.values(), *extends):
            if touch.lease_us is not None:
                by_fence.setdefault(touch.fence, []).append(touch)
        for fence, touches in by_fence.items():
            last_us = self._lease_end(fence)
            for touch in touches:
                if last_us is not None and touch.lease_us is not None and touch.lease_us > last_us:
                    flaw = Flaw(11, f"the lease of fence {fence} became shorter than its holder was told")
                    raise Broken(flaw, event=self._ended.get(fence), operation=touch.operation)
            if len(touches) > 1:
                _never_shorter(fence, touches)

    def _lease_end(self, fence: int) -> int | None:
        """Say when the lease of a claim ended in the end, if that is known."""
        if fence in self._ended:
            return self._events[self._ended[fence]].lease_expires_us
        return self._job.lease_expires_us if fence == self._job.fence else None

    # Back-off

    def _compare_backoff(self) -> None:
        for index, event in enumerate(self._events):
            if event.to is Status.PENDING and event.event in {EventName.RETRIED, EventName.EXPIRED}:
                self._compare_delay(index, event)

    def _compare_delay(self, index: int, event: Event) -> None:
        operation = self._spans[index].operation
        if event.event is EventName.RETRIED and operation is None:
            return  # its handler may have asked for any delay
        delay_us = event.due_us - event.at_us
        asked_us = None if operation is None else operation.arguments.get("delay_us")
        ceiling_us = round(self._job.terms.retry.ceiling(event.attempts) * SECOND)
        if asked_us is not None and delay_us != asked_us:
            flaw = Flaw(15, f"due after {delay_us} us, but {asked_us} us were asked for")
            raise Broken(flaw, event=index, operation=operation)
        if asked_us is None and delay_us > ceiling_us:
            flaw = Flaw(15, f"back-off of {delay_us} us, {ceiling_us} us at most after {event.attempts} attempts")
            raise Broken(flaw, event=index, operation=operation)
        if asked_us is None and ceiling_us:
            self._accounts.fractions.append(delay_us / ceiling_us)


def _span(touch: Touch) -> Span:
    operation = touch.operation
    return Span(operation.invoked, _FOREVER if operation.returned is None else operation.returned, operation)


def _made(touches: Sequence[Touch], accounts: Accounts, index: int) -> Span:
    """Find the enqueue that made the job."""
    new = [touch for touch in touches if touch.outcome == "new"]
    if len(new) > 1:
        raise Broken(Flaw(9, "two enqueues were told that they made it"), event=index, operation=new[1].operation)
    if new:
        return _span(new[0])
    # Its reply was lost: for good, or on the way, and what was sent again by itself found a duplicate.
    others = [
        touch for touch in touches if touch.operation.kind == "enqueue" and touch.outcome in {"unknown", "duplicate"}
    ]
    if others:
        return Span(min(touch.operation.invoked for touch in others), _FOREVER, others[0].operation)
    if not accounts.made():
        raise Broken(Flaw(4, "it is there, but no one enqueued it"), event=index)
    return _ANY_TIME


def _grants(touches: Sequence[Touch]) -> dict[int, Touch]:
    """List the claims that were returned to someone, by fence."""
    grants: dict[int, Touch] = {}
    for touch in touches:
        if touch.operation.kind != "claim":
            continue
        if touch.fence in grants:
            raise Broken(Flaw(2, f"fence {touch.fence} was handed out twice"), operation=touch.operation)
        grants[touch.fence] = touch
    return grants


def _in_turn(spans: list[Span]) -> list[Span]:
    """Order spans of the same kind of operation; where they overlap, which came first is not known."""
    spans.sort(key=lambda span: span.since)
    if any(after.since < before.until for before, after in pairwise(spans)):
        whole = Span(spans[0].since, max(span.until for span in spans), spans[0].operation)
        return [whole] * len(spans)
    return spans


def _sweep(names: Sequence[EventName], spans: Sequence[Span]) -> None:
    """See that each event can have happened after all that come before it in the log."""
    latest, by = -1, 0
    for index, span in enumerate(spans):
        if span.until < latest:
            flaw = _out_of_order(names[by], names[index])
            raise Broken(flaw, event=index, operation=span.operation)
        if span.since > latest:
            latest, by = span.since, index


def _out_of_order(before: EventName, after: EventName) -> Flaw:
    order = f"{after} was answered before {before} was asked for, which the log has first"
    if before is EventName.ENQUEUED:
        return Flaw(4, order)
    if after is EventName.CLAIMED:
        return Flaw(2, order) if before is EventName.CLAIMED else Flaw(1, f"{order}: two held it at once")
    return Flaw(3 if after in ENDINGS else 7, order)


def _never_shorter(fence: int, touches: list[Touch]) -> None:
    """See that whoever asked after a lease end was told of it was not told of an earlier one."""
    ended = sorted(touches, key=lambda touch: _span(touch).until)
    longest_us, next_ended = 0, 0
    for touch in sorted(touches, key=lambda touch: touch.operation.invoked):
        while next_ended < len(ended) and _span(ended[next_ended]).until < touch.operation.invoked:
            longest_us = max(longest_us, ended[next_ended].lease_us or 0)
            next_ended += 1
        if (touch.lease_us or 0) < longest_us:
            raise Broken(Flaw(11, f"the lease of fence {fence} was longer before"), operation=touch.operation)
