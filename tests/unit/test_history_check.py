"""The history checker: what really happened passes, and each planted mistake is named by its promise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from dibs.domain import transitions
from dibs.domain.job import EventName, Outcome, Status
from dibs.domain.retry import SECOND
from dibs.testing.history import Answer
from tests.unit.history_story import Story, draft, told


@pytest.fixture
def story() -> Story:
    return asyncio.run(told())


def test_what_happened_is_clean(story: Story) -> None:
    report = story.check()
    assert report.ok, report
    assert (report.jobs, report.pruned, report.unknown) == (6, 1, 0)
    assert str(report).endswith("every promise kept")


# Planted mistakes: in the log, in what clients saw, or in both


def two_holders(story: Story) -> None:
    """The second claim of d was answered before the first was given back."""
    release = story.operation("release", "d")
    first, second = story.operation("claim", "d"), story.operation("claim", "d", 1)
    assert first.returned is not None
    story.at(second, first.returned + 1, first.returned + 2)
    story.at(release, first.returned + 3, first.returned + 4)
    later = story.operation("complete", "d")
    story.at(later, first.returned + 5, first.returned + 6)


def two_holders_in_the_log(story: Story) -> None:
    events = story.events("d")
    del events[2]
    events[2:] = [replace(event, seq=event.seq - 1) for event in events[2:]]
    story.row("d", events=len(events))
    story.forget(story.operation("release", "d"))


def fence_handed_out_twice(story: Story) -> None:
    story.operation("claim", "d", 1).result[0]["fence"] = 1


def fence_runs_backwards(story: Story) -> None:
    """b's claims are answered in the wrong order; how the first of them ended is not known."""
    first, second = story.operation("claim", "b"), story.operation("claim", "b", 1)
    assert first.returned is not None
    assert second.returned is not None
    times = first.invoked, first.returned
    story.at(first, second.invoked, second.returned)
    story.at(second, *times)
    story.forget(story.operation("fail", "b"))
    story.options["complete"] = False


def stale_settle_applied(story: Story) -> None:
    story.operation("complete", "c").result = "applied"


def stale_settle_in_the_log(story: Story) -> None:
    story.change("c", 4, fence=1)


def settle_applied_but_not_logged(story: Story) -> None:
    story.operation("release", "d").kind = "complete"


def settled_twice(story: Story) -> None:
    story.operation("complete", "a", 1).result = "applied"


def settle_told_lost_but_logged(story: Story) -> None:
    story.operation("complete", "f").result = "lost"


def settle_told_lease_lost_but_logged(story: Story) -> None:
    operation = story.operation("complete", "f")
    operation.answer, operation.result = Answer.REFUSED, "lease_lost"


def settled_by_no_one(story: Story) -> None:
    story.forget(story.operation("complete", "f"))


def stale_extend_applied(story: Story) -> None:
    late = story.history.operations[-1].invoked - 1
    story.at(story.operation("extend", "a"), late, late)


def extend_of_no_claim(story: Story) -> None:
    story.operation("extend", "a").arguments["fence"] = 7


def extend_before_the_claim(story: Story) -> None:
    story.at(story.operation("extend", "a"), 1, 2)


def lost_job(story: Story) -> None:
    story.remove("f")


def lost_tombstone(story: Story) -> None:
    story.remove("gone")


def gone_without_a_prune(story: Story) -> None:
    story.items = [(None if events[0].job_id == "f" else job, events) for job, events in story.items]


def phantom_job(story: Story) -> None:
    job = draft("phantom").job(story.clock.now())
    event = transitions.log(None, job, EventName.ENQUEUED, story.clock.now())
    story.items.append((job, [event]))
    story.options["final"] = False
    story.forget(story.history.operations[-1])  # the counts would be wrong, too


def half_acknowledged(story: Story) -> None:
    story.operation("enqueue", "f").result.pop()
    story.options["complete"] = False


def claimed_before_it_was_enqueued(story: Story) -> None:
    story.at(story.operation("claim", "f"), 1, 2)


def never_ended(story: Story) -> None:
    events = story.events("f")
    del events[2]
    claimed = events[1]
    story.row("f", status=Status.CLAIMED, events=2, attempts=0, lease_expires_us=claimed.lease_expires_us)
    story.forget(story.operation("complete", "f"))
    story.forget(story.history.operations[-1])


def never_taken(story: Story) -> None:
    del story.events("f")[1:]
    story.row("f", status=Status.PENDING, events=1, attempts=0, fence=0, worker_id=None)
    for operation in (story.operation("claim", "f"), story.operation("complete", "f"), story.history.operations[-1]):
        story.forget(operation)


def too_many_attempts(story: Story) -> None:
    story.row("b", max_attempts=1)


def illegal_transition(story: Story) -> None:
    story.change("f", 2, to=Status.PENDING)


def cancelled_by_no_one(story: Story) -> None:
    story.forget(story.operation("cancel", "e"))


def claimed_before_due(story: Story) -> None:
    story.change("c", 1, at_us=story.events("c")[0].due_us - 1)


def key_of_two_jobs(story: Story) -> None:
    """The enqueue that was found by its key is told that it made a job of its own."""
    made = next(job for job in story.operation("enqueue", "f").result if job["id"] == "f")
    made["duplicate"] = True
    story.operation("enqueue", "a2").result = [{"id": "f"}]


def key_of_two_jobs_in_the_log(story: Story) -> None:
    story.row("f", idempotency_key="ka")


def unique_key_of_two_jobs(story: Story) -> None:
    story.row("d", unique_key="ub")


def made_twice(story: Story) -> None:
    story.operation("enqueue", "a", 1).result[0]["duplicate"] = False


def one_id_two_rows(story: Story) -> None:
    story.items.append(story.items[-2])


def leased_but_not_returned(story: Story) -> None:
    story.operation("claim", "e").result = []


def returned_but_not_leased(story: Story) -> None:
    story.operation("claim", "e").result.append({"id": "f", "fence": 2})
    story.operation("claim", "e").arguments["limit"] = 2


def returned_to_another(story: Story) -> None:
    story.operation("claim", "f").arguments["worker_id"] = "w9"


def more_than_the_limit(story: Story) -> None:
    story.operation("claim", "f").arguments["limit"] = 0


def pruned_under_an_earlier_fence(story: Story) -> None:
    story.operation("claim", "gone").result[0]["fence"] = 5


def lease_shortened(story: Story) -> None:
    first, second = story.operation("extend", "a"), story.operation("extend", "a", 1)
    first.result, second.result = second.result, first.result


def lease_shortened_in_the_log(story: Story) -> None:
    story.operation("extend", "a", 1).result["lease_expires_us"] += 1


def event_dropped(story: Story) -> None:
    del story.events("b")[2]


def row_differs(story: Story) -> None:
    story.row("b", attempts=0)


def redrive_not_logged(story: Story) -> None:
    operation = story.history.invoke("redrive", "p1", {"id": "f"})
    story.history.finish(operation, Answer.OK, "applied")


def wrong_count(story: Story) -> None:
    story.history.operations[-1].result["completed"] += 2  # one may have been pruned since


def count_called_inexact(story: Story) -> None:
    story.history.operations[-1].result["exact"] = False


def backoff_out_of_range(story: Story) -> None:
    event = story.events("c")[2]
    story.change("c", 2, due_us=event.at_us + 1 * SECOND + 1)


def delay_not_obeyed(story: Story) -> None:
    story.operation("fail", "b").arguments["delay_us"] = 1


MISTAKES: dict[str, tuple[int, Callable[[Story], None]]] = {
    "two holders": (1, two_holders),
    "two holders in the log": (1, two_holders_in_the_log),
    "a fence is handed out twice": (2, fence_handed_out_twice),
    "fences run backwards": (2, fence_runs_backwards),
    "a stale settle is applied": (3, stale_settle_applied),
    "a stale settle is in the log": (3, stale_settle_in_the_log),
    "a settle is applied but not logged": (3, settle_applied_but_not_logged),
    "a claim is settled twice": (3, settled_twice),
    "a settle is told lost but logged": (3, settle_told_lost_but_logged),
    "a settle is told lease_lost but logged": (3, settle_told_lease_lost_but_logged),
    "a claim is settled by no one": (3, settled_by_no_one),
    "a stale extend is applied": (3, stale_extend_applied),
    "an extend of no claim is applied": (3, extend_of_no_claim),
    "an extend is applied before the claim": (3, extend_before_the_claim),
    "a job is lost": (4, lost_job),
    "a pruned job leaves no trace": (4, lost_tombstone),
    "a job is gone but was not pruned": (4, gone_without_a_prune),
    "a phantom job": (4, phantom_job),
    "half a batch is acknowledged": (4, half_acknowledged),
    "a job is claimed before it is enqueued": (4, claimed_before_it_was_enqueued),
    "a claim is never ended": (5, never_ended),
    "a due job is never taken": (5, never_taken),
    "too many attempts": (6, too_many_attempts),
    "an illegal transition": (7, illegal_transition),
    "a cancellation that no one asked for": (7, cancelled_by_no_one),
    "claimed before due": (8, claimed_before_due),
    "one idempotency key, two jobs": (9, key_of_two_jobs),
    "one idempotency key, two jobs in the log": (9, key_of_two_jobs_in_the_log),
    "one unique key, two unfinished jobs": (9, unique_key_of_two_jobs),
    "one id made twice": (9, made_twice),
    "one id, two rows": (9, one_id_two_rows),
    "leased but not returned": (10, leased_but_not_returned),
    "returned but not leased": (10, returned_but_not_leased),
    "returned to another": (10, returned_to_another),
    "more than the limit": (10, more_than_the_limit),
    "pruned under an earlier fence": (10, pruned_under_an_earlier_fence),
    "a lease is shortened": (11, lease_shortened),
    "a lease is shorter in the log": (11, lease_shortened_in_the_log),
    "an event is dropped": (12, event_dropped),
    "the row differs from its log": (12, row_differs),
    "a redrive is not logged": (12, redrive_not_logged),
    "a wrong count": (13, wrong_count),
    "a small count called inexact": (13, count_called_inexact),
    "a back-off out of range": (15, backoff_out_of_range),
    "an asked-for delay is not obeyed": (15, delay_not_obeyed),
}


def test_a_settle_that_is_told_to_be_in_doubt_may_have_been_done(story: Story) -> None:
    story.operation("complete", "f").result = Outcome.IN_DOUBT.value
    assert story.check().ok


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake: str, story: Story) -> None:
    promise, plant = MISTAKES[mistake]
    plant(story)

    report = story.check()

    assert report.violations[0].promise == promise, report
    assert {violation.promise for violation in report.violations} == {promise}, report
    assert f"promise {promise} (" in str(report)
