"""Jobs, claims and writes of every kind, drawn by Hypothesis: what a store can come by, and a little more."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import strategies as st

from dibs.domain import transitions
from dibs.domain.job import (
    NEVER,
    ClaimRequest,
    Draft,
    Error,
    EventName,
    Extension,
    Job,
    Keep,
    Order,
    Ref,
    Status,
    Terms,
)
from dibs.domain.retry import Backoff
from dibs.domain.transitions import Failure, Write

NOW = 1_800_000_000_000_000
TOKENS = ["", "token", "token-2", "tökén", "\ud800"]
MOMENTS = st.integers(NOW - 10**12, NOW + 10**12)
LENGTHS = st.integers(0, 10**13)
ENDS = [
    EventName.COMPLETED,
    EventName.RETRIED,
    EventName.FAILED,
    EventName.RELEASED,
    EventName.EXPIRED,
    EventName.CANCELLED,
]

texts = st.text(st.characters(codec="utf-8"), max_size=20)
errors = st.builds(Error, texts, texts, st.none() | texts, st.none() | texts)
backoffs = st.builds(Backoff, st.floats(0, 1e6), st.floats(0, 1e9))
keeps = st.builds(Keep, LENGTHS, LENGTHS, LENGTHS)
terms = st.builds(Terms, retry=backoffs, lease_us=st.integers(10_000, 10**12))


@st.composite
def jobs(draw: st.DrawFn, status: Status | None = None) -> Job:
    """Draw a job in any state that it can be in."""
    now = status or draw(st.sampled_from(Status))
    most = draw(st.integers(1, 5) | st.just(10**6))
    # A claim can only be made while an attempt is left.
    least_left = 1 if now in {Status.PENDING, Status.CLAIMED} else 0
    attempts = draw(st.integers(0, most - least_left))
    claimed = now in {Status.CLAIMED, Status.COMPLETED, Status.FAILED} or draw(st.booleans())
    fence = draw(st.integers(max(1, attempts), attempts + 5)) if claimed else 0
    start = draw(MOMENTS)
    lease = draw(st.integers(10_000, 10**10))
    return Job(
        "job",
        "queue",
        "task",
        b"{}",
        draw(st.integers(-32768, 32767)),
        now,
        draw(MOMENTS | st.just(NEVER)),
        attempts if claimed else 0,
        most,
        fence,
        start,
        start,
        draw(terms),
        draw(keeps),
        worker_id="worker" if claimed else None,
        claimed_us=start if claimed else None,
        lease_expires_us=start + lease if claimed else None,
        claim_lease_us=lease if claimed else None,
        lease_token="token" if claimed else "",
        settled_as=None if now is Status.CLAIMED or not claimed else draw(st.sampled_from(ENDS)),
        idempotency_key=draw(st.none() | st.just("key")),
        unique_key=draw(st.none() | st.just("unique")),
        result_json=b"1" if now is Status.COMPLETED else None,
        error=draw(st.none() | errors),
        progress=draw(st.none() | st.floats(0, 1)),
        completed_us=start if now.finished else None,
        events=draw(st.integers(1, 100)),
    )


@st.composite
def refs(draw: st.DrawFn, job: Job) -> Ref:
    """Draw the name of a claim: mostly the job's last one, sometimes nearly so."""
    fence = draw(st.sampled_from([job.fence, job.fence, job.fence, job.fence - 1, job.fence + 1, 0, 2**62]))
    return Ref(job.id, fence, draw(st.sampled_from(["token", "token", "token", *TOKENS])))


@st.composite
def writes(draw: st.DrawFn, job: Job) -> Write:
    """Draw any decision that the domain can make about a job, by one who may know an older state of it."""
    ref = draw(refs(job))
    random = Random(draw(st.integers(0, 2**32)))
    failure = Failure(draw(errors), draw(st.booleans()), draw(st.none() | LENGTHS))
    return draw(
        st.sampled_from(
            [
                transitions.complete(ref, draw(st.none() | st.just(b"1"))),
                transitions.fail(job, ref, failure, random),
                transitions.expire(job, random),
                transitions.release(ref, draw(st.none() | LENGTHS)),
                transitions.cancel(job.id, "olga"),
                transitions.redrive(job.id),
                transitions.purge(job.id, "olga"),
            ]
        )
    )


requests = st.builds(
    ClaimRequest,
    st.just("worker-2"),
    st.just("token-2"),
    limit=st.integers(1, 1000),
    order=st.sampled_from(Order),
    lease_us=st.none() | st.integers(10_000, 10**12),
)


def extensions(job: Job) -> st.SearchStrategy[Extension]:
    """Draw a wish to keep a claim."""
    return st.builds(Extension, refs(job), st.none() | st.floats(0, 1), texts)


@st.composite
def drafts(draw: st.DrawFn) -> Draft:
    """Draw a job that is about to be inserted, out of few names, so that many meet."""
    few = st.sampled_from(["a", "b"])
    return Draft(
        draw(few),
        draw(few),
        draw(few),
        draw(st.sampled_from([b"1", b"2"])),
        0,
        3,
        Terms(),
        Keep(1, 1, 1),
        delay_us=draw(st.none() | LENGTHS),
        scheduled_us=draw(st.none() | MOMENTS),
        idempotency_key=draw(st.none() | few),
        unique_key=draw(st.none() | few),
    )


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)
