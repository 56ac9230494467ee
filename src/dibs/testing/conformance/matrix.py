"""Only the transitions of the contract: every verb, from every state that a job can be brought to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.domain import transitions
from dibs.domain.job import Extension, Outcome, Status
from dibs.domain.retry import Backoff
from dibs.testing.conformance.base import Suite
from dibs.testing.conformance.builders import (
    claim,
    claim_one,
    completed,
    enqueue,
    expired,
    failed,
    new_job,
    read,
    reap,
    released,
    settle,
)

if TYPE_CHECKING:
    from dibs.clock import FakeClock
    from dibs.domain.job import Job
    from dibs.domain.transitions import Write
    from dibs.store import Store

APPLIED, REPEATED, LOST = Outcome.APPLIED, Outcome.REPEATED, Outcome.LOST
PENDING, CLAIMED, COMPLETED, FAILED, CANCELLED = Status

# How a job got there, step by step; where it is then; and which verb of its last holder only repeats what was done.
STATES: dict[str, tuple[Status, str]] = {
    "": (PENDING, ""),
    "claim": (CLAIMED, ""),
    "claim complete": (COMPLETED, "complete"),
    "claim fail": (FAILED, "fail"),
    "claim retry": (PENDING, "fail"),
    "claim release": (PENDING, "release"),
    "claim expire": (PENDING, ""),
    "claim retry claim expire": (FAILED, ""),
    "cancel": (CANCELLED, ""),
    "claim cancel": (CANCELLED, ""),
    "claim retry cancel": (CANCELLED, "fail"),
    "claim complete redrive": (PENDING, "complete"),
    "claim fail redrive": (PENDING, "fail"),
    "claim cancel redrive": (PENDING, ""),
    "claim fail redrive cancel": (CANCELLED, "fail"),
    "claim retry claim complete": (COMPLETED, "complete"),
}
VERBS = {
    "cancel": {PENDING: APPLIED, CLAIMED: APPLIED, COMPLETED: LOST, FAILED: LOST, CANCELLED: REPEATED},
    "redrive": {PENDING: LOST, CLAIMED: LOST, COMPLETED: APPLIED, FAILED: APPLIED, CANCELLED: APPLIED},
    "purge": {PENDING: LOST, CLAIMED: LOST, COMPLETED: APPLIED, FAILED: APPLIED, CANCELLED: APPLIED},
}


def write(verb: str, job: Job, clock: FakeClock) -> Write:
    """Decide on a verb for the job as its last holder knew it."""
    writes = {
        "complete": completed(job),
        "fail": failed(job, retryable=False),
        "retry": failed(job),
        "release": released(job),
        "expire": expired(job, clock),
        "cancel": transitions.cancel(job.id),
        "redrive": transitions.redrive(job.id),
        "purge": transitions.purge(job.id),
    }
    return writes[verb]


async def bring(store: Store, clock: FakeClock, state: str) -> Job:
    """Bring a job to a state; answer what its last holder has in hand."""
    [job] = await enqueue(store, new_job("it", max_attempts=2, retry=Backoff(base=0)))
    for step in state.split():
        if step == "claim":
            job = await claim_one(store, lease=60)
        elif step == "expire":
            clock.advance(60)
            assert [written.outcome for written in await reap(store, clock)] == [APPLIED]
        else:
            assert await settle(store, write(step, job, clock)) == [APPLIED]
    assert (await read(store, "it")).status is STATES[state][0]
    return job


class MatrixSuite(Suite):
    """What is not a transition changes nothing, and says so."""

    @pytest.mark.parametrize("verb", ["complete", "fail", "retry", "release", "expire", "extend"])
    @pytest.mark.parametrize("state", [state for state in STATES if state != "claim"])
    async def test_settle_from_every_other_state(self, store: Store, clock: FakeClock, state: str, verb: str) -> None:
        job = await bring(store, clock, state)
        before, log = await read(store, "it"), await store.log("it")
        clock.advance(1000)

        if verb == "extend":
            assert await store.extend([Extension(job.ref, 0.5, "late")]) == [LOST]
        else:
            repeated = STATES[state][1] == {"retry": "fail"}.get(verb, verb)
            assert await store.write([write(verb, job, clock)]) == [(REPEATED if repeated else LOST, before.status)]

        assert await read(store, "it") == before
        assert await store.log("it") == log

    @pytest.mark.parametrize("verb", ["complete", "fail", "retry", "release", "extend"])
    async def test_settle_by_the_holder(self, store: Store, clock: FakeClock, verb: str) -> None:
        job = await bring(store, clock, "claim")

        if verb == "extend":
            assert await store.extend([Extension(job.ref)]) == [APPLIED]
        else:
            assert await settle(store, write(verb, job, clock)) == [APPLIED]
        to = {"complete": COMPLETED, "fail": FAILED, "retry": PENDING, "release": PENDING, "extend": CLAIMED}
        assert (await read(store, "it")).status is to[verb]

    @pytest.mark.parametrize("verb", VERBS)
    @pytest.mark.parametrize("state", STATES)
    async def test_operators_from_every_state(self, store: Store, clock: FakeClock, state: str, verb: str) -> None:
        job = await bring(store, clock, state)
        before, log = await read(store, "it"), await store.log("it")
        outcome = VERBS[verb][before.status]

        assert await settle(store, write(verb, job, clock)) == [outcome]

        [after] = await store.get(["it"])
        if outcome is not APPLIED:
            assert (after, await store.log("it")) == (before, log)
        elif verb == "purge":
            assert after is None
        else:
            assert after is not None
            assert after.status is {"cancel": CANCELLED, "redrive": PENDING}[verb]

    @pytest.mark.parametrize("state", STATES)
    async def test_claim_from_every_state(self, store: Store, clock: FakeClock, state: str) -> None:
        job = await bring(store, clock, state)
        before = await read(store, "it")

        by_id = await claim(store, id="it")

        assert [found.fence for found in by_id] == ([job.fence + 1] if before.status is PENDING else [])
        assert await claim(store) == []
