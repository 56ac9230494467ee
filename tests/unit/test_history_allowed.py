"""The history checker allows for what is not known, and tells what it found."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from dibs.domain import transitions
from dibs.domain.job import EventName
from dibs.domain.retry import SECOND
from dibs.store import PAUSED
from dibs.testing.history import History, Recorder, check
from tests.unit.history_story import Story, draft, told
from tests.unit.test_history_check import event_dropped, lost_job, phantom_job, two_holders


@pytest.fixture
def story() -> Story:
    return asyncio.run(told())


@pytest.mark.parametrize(
    ("kind", "id"),
    [
        ("enqueue", "f"),
        ("claim", "f"),
        ("claim", "gone"),
        ("complete", "f"),
        ("fail", "c"),
        ("cancel", "e"),
        ("extend", "a"),
    ],
)
def test_a_lost_reply_may_have_been_anything(kind: str, id: str, story: Story) -> None:
    story.lose_reply(story.operation(kind, id))
    report = story.check()
    assert report.ok, report
    assert report.unknown == 1


def test_a_lost_claim_accounts_for_no_more_than_its_limit(story: Story) -> None:
    story.lose_reply(story.operation("claim", "e"))
    story.operation("claim", "f").result = []
    assert [violation.promise for violation in story.check().violations] == [10]
    story.history.invoke("claim", "p2", {"worker_id": "w2", "limit": 9})  # another worker's
    assert [violation.promise for violation in story.check().violations] == [10]
    story.history.invoke("claim", "p2", {})  # anyone's
    assert story.check().ok


def test_two_lost_settles_of_which_either_was_the_one(story: Story) -> None:
    first = story.operation("fail", "b")
    story.lose_reply(first)
    story.history.invoke("fail", "p2", {**first.arguments, "delay_us": 7})
    assert story.check().ok


def test_a_lost_enqueue_without_an_id_accounts_for_any_job(story: Story) -> None:
    phantom_job(story)
    operation = story.history.invoke("enqueue", "p2", {"task": "task"})
    assert operation.returned is None
    assert story.check().ok
    assert [violation.promise for violation in check(History(), story.items, final=False).violations] == [4] * 8


def test_clients_that_were_not_recorded_are_allowed_for_on_request(story: Story) -> None:
    report = check(History(), story.items, complete=False)
    assert report.ok, report


def test_a_claim_that_was_given_up_is_released_by_no_one(story: Story) -> None:
    story.lose_reply(story.operation("claim", "d"))
    story.forget(story.operation("release", "d"))
    assert story.check().ok


def test_a_settle_that_was_sent_again_by_itself_is_told_repeated(story: Story) -> None:
    story.operation("complete", "f").result = "repeated"
    assert story.check().ok


def test_an_order_by_filter_accounts_for_any_job(story: Story) -> None:
    story.forget(story.operation("redrive", "c"))
    story.history.invoke("redrive", "p1", {"where": {"status": "failed"}})
    assert story.check().ok


def test_overlapping_calls_may_have_happened_in_either_order(story: Story) -> None:
    for operation in story.history.operations[:-1]:
        story.at(operation, 1, 10**6)
    assert story.check().ok


def test_jobs_that_wait_are_not_stuck() -> None:
    async def run() -> Story:
        story = Story()
        await story.enqueue(
            draft("held", delay_us=None), draft("later", delay_us=60 * SECOND), draft("p", queue="paused")
        )
        await story.store.put(PAUSED + "paused", b"{}")
        return await story.end()

    story = asyncio.run(run())
    assert story.check().ok
    story.options["now_us"] = story.clock.now() + 60 * SECOND
    assert [(v.promise, v.job_id) for v in story.check().violations] == [(5, "later")]
    story.options["final"] = False
    assert story.check().ok


def test_a_key_may_be_used_again_once_its_job_was_pruned() -> None:
    async def run() -> Story:
        story = Story()
        await story.enqueue(draft("x", keep=0, idempotency_key="k"))
        await story.complete(await story.claim("x"))
        await story.enqueue(draft("y", idempotency_key="k"))
        await story.complete(await story.claim("y"))
        return await story.end()

    assert asyncio.run(run()).check().ok


@pytest.mark.parametrize("alike", [True, False])
def test_back_offs_are_spread(alike: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> Story:
        story = Story()
        if alike:
            monkeypatch.setattr(story.clock.random, "uniform", lambda low, high: high)
        await story.enqueue(*(draft(f"j{number}") for number in range(20)))
        for number in range(20):
            await story.fail(await story.claim(f"j{number}"))
        story.options["final"] = False
        return await story.end()

    story = asyncio.run(run())
    for operation in story.history.operations:
        operation.arguments.pop("delay_us", None)  # as an app sees it: no one asked for a delay
    assert [violation.promise for violation in story.check().violations] == ([15] if alike else [])


def test_counts_beyond_what_is_exact() -> None:
    story = Story()
    job = draft("job").job(0)
    for number in range(10_001):
        each = replace(job, id=str(number))
        story.items.append((each, [transitions.log(None, each, EventName.ENQUEUED, 0)]))
    with Recorder(story.history, "p").operation("counts") as operation:
        operation.returned({"pending": 9_000, "exact": False})
    story.options = {"complete": False, "final": False}
    assert story.check().ok


# Telling


def test_a_violation_shows_the_calls_among_the_events(story: Story) -> None:
    two_holders(story)
    [violation] = story.check().violations

    head, *rows = str(violation).splitlines()
    assert "two held it at once" in head
    assert violation.event is story.events("d")[3]
    assert violation.operation is story.operation("claim", "d", 1)
    marked = [line.split()[:4] for line in rows if line.startswith(">")]
    assert marked == [[">", "call", "p1", "claim"], [">", "log", "#4", "claimed"]]
    kinds = [line[2:].split()[0] for line in rows]
    assert {"log", "call"} == set(kinds)


def test_an_unanswered_call_is_shown_as_such(story: Story) -> None:
    story.lose_reply(story.operation("enqueue", "f"))
    event_dropped(story)
    lost_job(story)
    report = story.check()
    story.lose_reply(story.operation("complete", "b"))
    assert "never answered" in str(story.check())
    assert report.broken == 2


def test_violations_beyond_the_limit_are_counted(story: Story) -> None:
    story.items = []
    story.options["limit"] = 1
    report = story.check()
    assert len(report.violations) == 1
    assert report.broken == 7 + 1  # seven jobs, and their counts
    assert str(report).endswith("… and 7 more")
