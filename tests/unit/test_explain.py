"""Every job can be explained, in any state and at any time."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dibs.domain.explain import explain, not_claimable
from dibs.domain.job import NEVER, Job, Keep, Status, Terms
from tests.unit.strategies import MOMENTS, NOW, jobs

CODES = {"claimed", "finished", "paused", "limited", "not_due", "ready"}


@given(jobs(), st.booleans(), MOMENTS)
def test_explain_is_total(job: Job, paused: bool, now: int):
    explanation = explain(job, paused=paused, now=now)

    assert explanation.code in CODES
    assert explanation.message.endswith(".")
    assert explanation.job == job
    if job.status is not Status.PENDING:
        assert explanation.code == ("claimed" if job.status is Status.CLAIMED else "finished")
    elif not paused:
        assert (explanation.code == "ready") == (job.due_us <= now)


@given(jobs(), st.booleans(), MOMENTS)
def test_whatever_keeps_a_job_from_being_claimed_has_a_code_of_the_contract(job: Job, paused: bool, now: int):
    error = not_claimable(explain(job, paused=paused, now=now))

    assert error.code in {"claimed", "not_due", "paused", "limited", "finished"}
    assert error.message


@pytest.mark.parametrize(
    ("change", "paused", "code", "words"),
    [
        ({"due_us": NOW}, False, "ready", "due for 10.0 s"),
        ({"due_us": NOW + 15_000_000}, False, "not_due", "due in 5.0 s"),
        ({"due_us": NOW + 15_000_000, "attempts": 1}, False, "not_due", "after attempt 1 of 3"),
        ({"due_us": NEVER}, False, "limited", "other than time"),
        ({"due_us": NOW}, True, "paused", "queue is paused"),
        ({"status": Status.CLAIMED, "lease_expires_us": NOW + 30_000_000}, True, "claimed", "ends in 20.0 s"),
        ({"status": Status.CLAIMED, "lease_expires_us": NOW}, False, "claimed", "ran out 10.0 s ago"),
        ({"status": Status.CANCELLED}, True, "finished", "cancelled"),
        ({"status": Status.FAILED, "attempts": 3}, False, "finished", "3 of 3 attempts"),
    ],
)
def test_explain_in_words(change: dict[str, object], paused: bool, code: str, words: str):
    pending = Job("id", "the-queue", "task", b"1", 0, Status.PENDING, NOW, 0, 3, 0, NOW, NOW, Terms(), Keep(1, 1, 1))
    explanation = explain(msgspec.structs.replace(pending, **change), paused=paused, now=NOW + 10_000_000)

    assert explanation.code == code
    assert words in explanation.message.replace("the-queue ", "")


def test_one_who_comes_second_is_told_in_the_words_of_the_seed():
    held = Job("id", "q", "t", b"1", 0, Status.CLAIMED, NOW, 0, 3, 1, NOW, NOW, Terms(), Keep(1, 1, 1), worker_id="w")
    error = not_claimable(explain(held, paused=False, now=NOW))

    assert (error.code, error.message) == ("claimed", "Task already claimed by another worker")
