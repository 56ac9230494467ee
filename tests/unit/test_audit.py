"""The audit checker: sound logs pass, and each planted mistake is named by its promise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dibs.domain import transitions
from dibs.domain.audit import Checker, Item, Violation, check, check_job
from dibs.domain.job import (
    NEVER,
    ClaimRequest,
    Draft,
    Error,
    Event,
    EventName,
    Extension,
    Job,
    Keep,
    Outcome,
    Status,
    Terms,
)
from dibs.domain.retry import SECOND
from dibs.domain.transitions import Failure, Write

DAY = 86_400 * SECOND
START = 1_800_000_000 * SECOND


def draft(id: str = "job", *, delay_us: int | None = 0, max_attempts: int = 3, **keys: Any) -> Draft:
    return Draft(id, "default", "task", b"{}", 0, max_attempts, Terms(), Keep(DAY, DAY, DAY), delay_us=delay_us, **keys)


class Life:
    """A job and its log, made by the domain alone."""

    def __init__(self, new: Draft | None = None, now: int = START) -> None:
        self.now = now
        self.job = (new or draft()).job(now)
        self.events = [transitions.log(None, self.job, EventName.ENQUEUED, now)]

    @property
    def item(self) -> Item:
        return self.job, self.events

    def wait(self, seconds: float) -> Life:
        self.now += round(seconds * SECOND)
        return self

    def claim(self, worker_id: str = "w1", *, lease: int = 30) -> Life:
        self.now = max(self.now, self.job.due_us) if self.job.due_us < NEVER else self.now
        after = transitions.claim(self.job, ClaimRequest(worker_id, "token", lease_us=lease * SECOND), self.now)
        return self._go(after, EventName.CLAIMED)

    def extend(self) -> Life:
        self.job = transitions.extend(self.job, Extension(self.job.ref), self.now)
        return self

    def write(self, write: Write) -> Life:
        assert transitions.judge(self.job, write, self.now) is Outcome.APPLIED
        return self._go(transitions.apply(self.job, write, self.now), write.event)

    def _go(self, after: Job, event: EventName) -> Life:
        self.events.append(transitions.log(self.job, after, event, self.now))
        self.job = after
        return self

    def complete(self) -> Life:
        return self.write(transitions.complete(self.job.ref))

    def fail(self, *, retryable: bool = True) -> Life:
        failure = Failure(Error("it broke"), retryable, None)
        return self.write(transitions.fail(self.job, self.job.ref, failure, Random(1)))

    def release(self, delay_us: int | None = None) -> Life:
        return self.write(transitions.release(self.job.ref, delay_us))

    def expire(self) -> Life:
        self.now = max(self.now, self.job.lease_expires_us or 0)
        return self.write(transitions.expire(self.job, Random(2)))

    def cancel(self) -> Life:
        return self.write(transitions.cancel("job", "admin"))

    def redrive(self) -> Life:
        return self.write(transitions.redrive("job", "admin"))


def long_life() -> Life:
    """Nearly everything: 1 enqueued, 2 claimed, 3 retried, 4 claimed, 5 expired, 6 claimed, 7 released, 8 claimed,
    9 failed, 10 redriven, 11 claimed, 12 completed."""
    life = Life().claim().wait(1).fail().claim("w2").wait(5).extend().expire().claim("w3").wait(1).release()
    return life.wait(1).claim("w4").wait(1).fail().wait(1).redrive().wait(1).claim("w5").wait(1).complete()


def test_a_long_life_is_sound() -> None:
    report = check([long_life().item])

    assert report.ok, report
    assert (report.jobs, report.events, report.pruned) == (1, 12, 0)
    assert str(report) == "1 jobs, 12 events, 0 pruned: every promise kept"


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 3)), max_size=40), st.integers(1, 4))
def test_whatever_the_domain_does_is_sound(steps: list[tuple[int, int]], max_attempts: int) -> None:
    life = Life(draft(max_attempts=max_attempts))
    for step, seconds in steps:
        life.wait(seconds * 10)
        moves: Sequence[Callable[[], object]] = {
            Status.PENDING: [life.claim, life.claim, life.claim, life.cancel],
            Status.CLAIMED: [
                life.complete,
                life.fail,
                lambda: life.fail(retryable=False),
                life.release,
                lambda: life.release(5 * SECOND),
                life.expire,
                life.cancel,
                life.extend,
            ],
        }.get(life.job.status, [life.redrive])
        moves[step % len(moves)]()
        assert check_job(life.job, life.events) is None


def edit(index: int, **changes: object) -> Callable[[Life], None]:
    def mutate(life: Life) -> None:
        life.events[index] = replace(life.events[index], **changes)

    return mutate


def move(index: int, **by_us: int) -> Callable[[Life], None]:
    def mutate(life: Life) -> None:
        event = life.events[index]
        life.events[index] = replace(event, **{name: getattr(event, name) + us for name, us in by_us.items()})

    return mutate


def row(**changes: object) -> Callable[[Life], None]:
    def mutate(life: Life) -> None:
        life.job = replace(life.job, **changes)

    return mutate


def drop(index: int) -> Callable[[Life], None]:
    return lambda life: life.events.__delitem__(index)


def swap(life: Life) -> None:
    life.events[3], life.events[4] = life.events[4], life.events[3]


def without_release(life: Life) -> None:
    """The release before the fourth claim is gone, and the log numbered as if it had never been."""
    del life.events[6]
    life.events[6:] = [replace(event, seq=event.seq - 1) for event in life.events[6:]]


MISTAKES: dict[str, tuple[int, Callable[[Life], None]]] = {
    "two claims at once": (1, without_release),
    "a fence is repeated": (2, edit(3, fence=1)),
    "a fence is skipped": (2, edit(1, fence=2)),
    "a redrive begins the fences anew": (2, edit(9, fence=0)),
    "a stale fence completes": (3, edit(11, fence=4)),
    "a stale fence expires": (3, edit(4, fence=1)),
    "an attempt is not counted": (6, edit(2, attempts=0)),
    "a release counts": (6, edit(6, attempts=3)),
    "a redrive keeps the attempts": (6, edit(9, attempts=3)),
    "more attempts than allowed": (6, row(max_attempts=2)),
    "retried from nowhere": (7, edit(2, from_=Status.PENDING)),
    "completed, but pending": (7, edit(11, to=Status.PENDING)),
    "a claim of a finished job": (7, edit(9, event=EventName.RELEASED, from_=Status.FAILED)),
    "never enqueued": (7, edit(0, event=EventName.REDRIVEN)),
    "reaped too early": (7, move(4, at_us=-1)),
    "a lease that is over as it begins": (7, lambda life: edit(1, lease_expires_us=life.events[1].at_us)(life)),
    "redriven for later": (7, move(9, due_us=1)),
    "claimed before it is due": (8, lambda life: edit(3, at_us=life.events[2].due_us - 1)(life)),
    "held back, but claimed": (8, edit(1, due_us=NEVER)),
    "released into the past": (8, lambda life: edit(6, due_us=life.events[5].due_us - 1)(life)),
    "a lease is shortened": (11, lambda life: edit(6, lease_expires_us=life.events[5].at_us + 1)(life)),
    "an event is missing": (12, drop(5)),
    "the first event is missing": (12, drop(0)),
    "the last event is missing": (12, drop(-1)),
    "an event is logged twice": (12, lambda life: life.events.insert(4, life.events[3])),
    "events out of order": (12, swap),
    "another job's event": (12, edit(4, job_id="other")),
    "no log at all": (12, lambda life: life.events.clear()),
    "another worker ends the claim": (12, edit(11, worker_id="w1")),
    "no worker claims": (12, edit(1, worker_id=None)),
    "the job has another status": (12, row(status=Status.PENDING)),
    "the job has another fence": (12, row(fence=9)),
    "the job has other attempts": (12, row(attempts=0)),
    "the job has another worker": (12, row(worker_id="w1")),
    "the job counts other events": (12, row(events=99)),
    "the next attempt is due before the last": (15, lambda life: edit(2, due_us=life.events[2].at_us - 1)(life)),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake: str) -> None:
    promise, plant = MISTAKES[mistake]
    life = long_life()
    plant(life)

    report = check([life.item])

    assert [violation.promise for violation in report.violations] == [promise], report
    assert not report.ok


def test_an_expiry_with_attempts_left_is_not_the_end() -> None:
    life = Life().claim().expire()
    life.events[-1] = replace(life.events[-1], to=Status.FAILED)
    violation = check_job(replace(life.job, status=Status.FAILED), life.events)
    assert violation is not None
    assert violation.promise == 7


def test_retried_with_no_attempts_left() -> None:
    life = Life(draft(max_attempts=2)).claim().fail()
    violation = check_job(replace(life.job, max_attempts=1), life.events)
    assert violation is not None
    assert violation.promise == 6


def test_a_claimed_job_with_a_shortened_lease() -> None:
    life = Life().claim(lease=30)
    violation = check_job(replace(life.job, lease_expires_us=life.now + 1), life.events)
    assert violation is not None
    assert violation.promise == 11


def test_an_extension_is_not_in_the_log_and_a_later_expiry_is_sound() -> None:
    assert check([Life().claim().wait(20).extend().wait(30).expire().item]).ok


def test_a_job_that_was_held_back_is_set_free_without_an_event() -> None:
    life = Life(draft(delay_us=None))
    life.job = replace(life.job, due_us=life.wait(5).now)
    assert check([life.claim().complete().item]).ok


# What is left of pruned jobs


def tombstone(**changes: object) -> list[Event]:
    life = Life().claim().complete()
    event = transitions.log(life.job, replace(life.job, events=4), EventName.PRUNED, life.now)
    return [replace(event, **changes)]


def test_a_tombstone_is_sound() -> None:
    report = check([(None, tombstone())])
    assert report.ok, report
    assert report.pruned == 1
    assert check([(None, [])]).ok


def test_a_whole_log_that_ends_with_pruned_is_sound() -> None:
    life = Life().claim().complete()
    assert check([(None, [*life.events, *tombstone()])]).ok
    assert not check([(None, [*life.events[1:], *tombstone()])]).ok


@pytest.mark.parametrize(
    ("changes", "promise"),
    [({"event": EventName.COMPLETED}, 4), ({"from_": Status.PENDING}, 7), ({"to": Status.FAILED}, 7), ({"seq": 2}, 12)],
)
def test_a_false_tombstone_is_found(changes: dict[str, object], promise: int) -> None:
    [violation] = check([(None, tombstone(**changes))]).violations
    assert violation.promise == promise


# Keys


def test_an_idempotency_key_of_two_jobs() -> None:
    items = [Life(draft(id, idempotency_key="k")).item for id in ("a", "b")]
    [violation] = check(items).violations
    assert violation.promise == 9
    assert violation.job_id == "b"


def test_a_unique_key_of_two_unfinished_jobs() -> None:
    items = [Life(draft(id, unique_key="k")).item for id in ("a", "b")]
    [violation] = check(items).violations
    assert violation.promise == 9


def test_a_unique_key_of_a_finished_and_an_unfinished_job() -> None:
    assert check([Life(draft("a", unique_key="k")).claim().complete().item, Life(draft("b", unique_key="k")).item]).ok


def test_equal_keys_of_different_kinds_are_no_conflict() -> None:
    items = [Life(draft("a", unique_key="k")).item, Life(draft("b", idempotency_key="k")).item, Life(draft("c")).item]
    assert check(items).ok


@pytest.mark.parametrize(("read_us", "ok"), [(START + 5, True), (START + 6, False)])
@pytest.mark.parametrize("key", ["idempotency_key", "unique_key"])
def test_a_key_may_pass_on_after_its_first_job_was_read(key: str, read_us: int, ok: bool) -> None:
    checker = Checker()
    keys: dict[str, Any] = {key: "k"}
    checker.add(*Life(draft("a", **keys)).item, read_us=read_us)
    checker.add(*Life(draft("b", **keys), now=START + 5).item, read_us=START + 9)
    assert checker.report().ok is ok


def test_the_same_job_read_twice_is_no_conflict() -> None:
    assert check([Life(draft("a", idempotency_key="k")).item] * 2).ok


# Telling


def test_a_violation_shows_the_event_and_its_neighbours() -> None:
    life = long_life()
    edit(5, fence=7)(life)
    [violation] = check([life.item]).violations

    assert violation.event is life.events[5]
    assert violation.neighbours == tuple(life.events[1:8])
    head, columns, *rows = str(violation).splitlines()
    assert head == (
        "promise 2 (fences strictly increase in a job's life) is broken: "
        "job job: the fence goes from 2 to 7: it grows by one with each claim"
    )
    assert columns.split()[:4] == ["seq", "event", "from", "to"]
    assert [line.split()[:3] for line in rows if line.startswith(">")] == [[">", "6", "claimed"]]
    assert len({line.index("2027") for line in rows}) == 1  # aligned


def test_a_violation_by_the_job_itself_shows_the_end_of_its_log() -> None:
    life = long_life()
    row(fence=9)(life)
    [violation] = check([life.item]).violations
    assert violation.event is None
    assert violation.neighbours == tuple(life.events[-4:])
    assert ">" not in str(violation)


def test_times_that_no_calendar_has_are_shown_all_the_same() -> None:
    life = Life(draft(delay_us=None))
    edit(0, at_us=2**62, seq=5, note="one\ntwo")(life)
    [violation] = check([life.item]).violations
    assert "held" in str(violation)
    assert f"{2**62} us" in str(violation)


def test_violations_beyond_the_limit_are_counted() -> None:
    checker = Checker(limit=2)
    for number in range(5):
        life = Life(draft(str(number)))
        returned = checker.add(replace(life.job, fence=1), life.events)
        assert isinstance(returned, Violation)
    report = checker.report()
    assert len(report.violations) == 2
    assert report.broken == 5
    assert "5 broken" in str(report)
    assert str(report).endswith("… and 3 more")
