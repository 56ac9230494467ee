"""The transitions are total, and only the legal ones are there."""

from __future__ import annotations

from random import Random

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dibs.domain import transitions
from dibs.domain.audit import COUNTED, LEGAL
from dibs.domain.job import FINISHED, NEVER, Error, EventName, Job, Outcome, Ref, Status
from dibs.domain.transitions import Write
from tests.unit.strategies import MOMENTS, NOW, TOKENS, drafts, extensions, jobs, requests, writes

decided = jobs().flatmap(lambda job: st.tuples(st.just(job), writes(job)))
OTHERS = frozenset({Outcome.APPLIED, Outcome.REPEATED, Outcome.LOST})


@given(decided, MOMENTS)
def test_judge_always_answers(both: tuple[Job, Write], now: int):
    assert transitions.judge(*both, now) in OTHERS


@given(decided, MOMENTS)
def test_apply_makes_only_legal_transitions(both: tuple[Job, Write], now: int):
    job, write = both
    if transitions.judge(job, write, now) is not Outcome.APPLIED:
        return
    after = transitions.apply(job, write, now)
    event = transitions.log(job, after, write.event, now, actor=write.actor, note=write.note)

    assert (event.from_, event.to) in LEGAL[event.event]
    assert (event.from_, event.to) == (job.status, write.to)
    assert 0 <= after.attempts <= after.max_attempts
    assert after.attempts == (0 if write.event is EventName.REDRIVEN else job.attempts + (write.event in COUNTED))
    assert (after.fence, after.id, after.params_json, after.created_us) == (
        job.fence,
        job.id,
        job.params_json,
        job.created_us,
    )
    assert (after.events, event.seq, after.updated_us) == (job.events + 1, job.events + 1, now)
    assert (after.idempotency_key, after.unique_key, after.terms, after.keep) == (
        job.idempotency_key,
        job.unique_key,
        job.terms,
        job.keep,
    )
    if write.to is not None:
        assert (after.completed_us == now) == (after.status in FINISHED)
        assert (after.completed_us is None) == (after.status not in FINISHED)


@given(decided, MOMENTS)
def test_apply_leaves_a_job_that_the_same_write_does_not_change_again(both: tuple[Job, Write], now: int):
    job, write = both
    if transitions.judge(job, write, now) is not Outcome.APPLIED or write.to is None:
        return
    again = transitions.judge(transitions.apply(job, write, now), write, now)

    # A redriven job has not ended, so it cannot be again; nor can an expiry; all other verbs repeat safely.
    other = {EventName.REDRIVEN, EventName.EXPIRED}
    assert again is (Outcome.LOST if write.event in other else Outcome.REPEATED)


@given(jobs(), MOMENTS, st.sampled_from(TOKENS), st.integers(-1, 10))
def test_only_the_holder_of_fence_and_token_settles(job: Job, now: int, token: str, fence: int):
    ref = Ref(job.id, fence, token)
    outcomes = {transitions.judge(job, write, now) for write in (transitions.complete(ref), transitions.release(ref))}
    holds = job.fence == fence and token == job.lease_token and bool(token)

    assert transitions.holds(job, ref) == (holds and job.status is Status.CLAIMED)
    if not holds:
        assert outcomes == {Outcome.LOST}
    elif job.status is Status.CLAIMED:
        assert outcomes == {Outcome.APPLIED}
    else:
        assert Outcome.APPLIED not in outcomes


@given(jobs(Status.CLAIMED), MOMENTS)
def test_only_a_lease_that_ran_out_expires(job: Job, now: int):
    write = transitions.expire(job, Random(0))

    expired = transitions.judge(job, write, now) is Outcome.APPLIED
    assert expired == (job.lease_expires_us is not None and job.lease_expires_us <= now)


@given(jobs(), st.booleans(), st.none() | st.integers(0, 10**9), st.integers())
def test_a_failure_is_retried_while_attempts_are_left(job: Job, retryable: bool, delay: int | None, seed: int):
    failure = transitions.Failure(Error("e"), retryable, delay)
    write = transitions.fail(job, job.ref, failure, Random(seed))

    again = retryable and job.attempts + 1 < job.max_attempts
    assert (write.event, write.to) == (
        (EventName.RETRIED, Status.PENDING) if again else (EventName.FAILED, Status.FAILED)
    )
    assert write.counts
    assert (write.delay_us is not None) == again
    if again and delay is not None:
        assert write.delay_us == delay
    elif again:
        assert 0 <= (write.delay_us or 0) <= job.terms.retry.ceiling(job.attempts + 1) * 1e6 + 1


@given(jobs(), st.integers())
def test_an_expiry_is_a_failure_of_its_own_kind(job: Job, seed: int):
    write = transitions.expire(job, Random(seed))

    assert write.error is not None
    assert (write.error.kind, write.event, write.counts) == ("lease_expired", EventName.EXPIRED, True)
    assert write.to is (Status.PENDING if job.attempts + 1 < job.max_attempts else Status.FAILED)


@given(jobs(Status.PENDING), requests, MOMENTS)
def test_claim_hands_out_with_the_next_fence(job: Job, request, now: int):
    after = transitions.claim(job, request, now)

    assert (after.status, after.fence, after.worker_id) == (Status.CLAIMED, job.fence + 1, request.worker_id)
    assert (after.lease_token, after.settled_as, after.attempts) == (request.token, None, job.attempts)
    assert after.lease_expires_us == now + (request.lease_us or job.terms.lease_us)
    assert (after.events, after.due_us) == (job.events + 1, job.due_us)
    assert transitions.holds(after, Ref(job.id, job.fence + 1, request.token))
    event = transitions.log(job, after, EventName.CLAIMED, now)
    assert (event.from_, event.to) in LEGAL[EventName.CLAIMED]


@given(jobs(Status.CLAIMED).flatmap(lambda job: st.tuples(st.just(job), extensions(job))), MOMENTS)
def test_extend_never_shortens_and_changes_nothing_else(both, now: int):
    job, extension = both
    after = transitions.extend(job, extension, now)

    assert (after.lease_expires_us or 0) >= (job.lease_expires_us or 0)
    assert (after.lease_expires_us or 0) >= now + (job.claim_lease_us or 0)
    assert after.progress == (job.progress if extension.progress is None else extension.progress)
    same = {"lease_expires_us": 0, "updated_us": 0, "progress": None, "progress_note": ""}
    assert msgspec.structs.replace(after, **same) == msgspec.structs.replace(job, **same)


@given(jobs(), requests, st.data())
def test_a_whole_life_stays_within_the_attempts(job: Job, request, data):
    """From any state, through ten steps of whatever is legal."""
    now = NOW
    for _ in range(10):
        now += data.draw(st.integers(0, 10**12))
        if job.status is Status.PENDING:
            fence = job.fence
            job = transitions.claim(job, request, now)
            assert job.fence > fence
        else:
            write = data.draw(writes(job))
            if transitions.judge(job, write, now) is Outcome.APPLIED and write.to is not None:
                job = transitions.apply(job, write, now)
        assert job.attempts <= job.max_attempts
        assert job.attempts < job.max_attempts or job.status.finished


@given(jobs(), drafts())
def test_redrive_clears_all_but_the_fence_and_the_keys(job: Job, draft):
    after = transitions.apply(job, transitions.redrive(job.id), NOW)

    assert (after.status, after.attempts, after.due_us, after.fence) == (Status.PENDING, 0, NOW, job.fence)
    assert (after.result_json, after.error, after.progress, after.progress_note) == (None, None, None, "")


@given(drafts(), st.none() | drafts(), st.none() | drafts(), st.none() | drafts())
def test_identify_is_total(draft, by_id, by_key, by_unique):
    def job(other, id: str):
        return None if other is None else msgspec.structs.replace(other.job(NOW), id=id)

    named = [("id", job(by_id, draft.id)), ("idempotency_key", job(by_key, "k")), ("unique_key", job(by_unique, "u"))]
    found = [(field, one) for field, one in named if one is not None]
    first, mismatch = transitions.identify(draft, *(one for _, one in named))

    assert (first is None) == (not found)
    assert mismatch is None or mismatch in {field for field, _ in found}
    if len({one.id for _, one in found}) > 1:
        assert mismatch is not None
    for field, one in found:
        same = (one.task, one.queue, one.params_json) == (draft.task, draft.queue, draft.params_json)
        if field != "unique_key" and not same:
            assert mismatch is not None
    if found and mismatch is None:
        assert first == found[0][1]


@given(drafts(), MOMENTS)
def test_a_new_job_is_due_no_earlier_than_now(draft, now: int):
    job = draft.job(now)

    assert job.due_us >= now
    assert job.due_us >= (draft.scheduled_us or 0)
    assert (job.due_us == NEVER) == (draft.delay_us is None)
    assert (job.status, job.attempts, job.fence, job.events) == (Status.PENDING, 0, 0, 1)
    assert (job.scheduled_at is None) == (draft.delay_us is None)


@given(st.sampled_from(TOKENS), st.sampled_from(TOKENS))
def test_tokens_are_the_same_only_if_they_are_and_are_there(held: str, given_: str):
    if held != "\ud800":  # no store holds that
        assert transitions.same_token(held, given_) == (bool(held) and held == given_)
