"""write: complete, fail and release, by the holder of the claim alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from dibs.domain import transitions
from dibs.domain.job import Error, EventName, Extension, Outcome, Ref, Status
from dibs.domain.retry import SECOND, Backoff
from dibs.testing.conformance.base import Suite
from dibs.testing.conformance.builders import (
    US,
    claim,
    claim_one,
    completed,
    enqueue,
    enqueue_and_claim,
    failed,
    ids,
    new_job,
    new_jobs,
    read,
    reap,
    released,
    settle,
)
from dibs.testing.conformance.insert import CANONICAL_JSON

if TYPE_CHECKING:
    from dibs.clock import FakeClock
    from dibs.store import Store


class SettleSuite(Suite):
    """Settling a claim; what comes of a claim that is no longer current is in the matrix of transitions."""

    async def test_settle_completes(self, store: Store, clock: FakeClock) -> None:
        job = await enqueue_and_claim(store)
        clock.advance(2)

        [written] = await store.write([completed(job, b'{"ok":true}')])

        after = await read(store, job.id)
        assert written == (Outcome.APPLIED, after.status)
        assert after == replace(
            job,
            lease_token="",
            status=Status.COMPLETED,
            attempts=1,
            result_json=b'{"ok":true}',
            completed_us=clock.now(),
            updated_us=clock.now(),
            settled_as=EventName.COMPLETED,
            events=3,
        )

    @pytest.mark.parametrize("result", CANONICAL_JSON, ids=range(len(CANONICAL_JSON)))
    async def test_settle_keeps_the_result_byte_for_byte(self, store: Store, result: bytes) -> None:
        job = await enqueue_and_claim(store)
        await settle(store, completed(job, result))

        assert (await read(store, job.id)).result_json == result

    async def test_settle_fails_and_tries_again(self, store: Store, clock: FakeClock) -> None:
        job = await enqueue_and_claim(store, new_job(max_attempts=2))
        clock.advance(2)
        error = Error("broken", "ValueError", "E42", "Traceback …")

        [written] = await store.write([failed(job, delay=5, error=error)])

        after = await read(store, job.id)
        assert written == (Outcome.APPLIED, after.status)
        assert after == replace(
            job,
            lease_token="",
            status=Status.PENDING,
            attempts=1,
            due_us=clock.now() + 5 * SECOND,
            error=error,
            updated_us=clock.now(),
            settled_as=EventName.RETRIED,
            events=3,
        )

    async def test_settle_fails_after_the_back_off(self, store: Store, clock: FakeClock) -> None:
        job = await enqueue_and_claim(store, new_job(retry=Backoff(base=8, cap=8)))
        write = failed(job, delay=None)
        await settle(store, write)

        after = await read(store, job.id)
        assert write.delay_us is not None
        assert after.due_us == clock.now() + write.delay_us
        clock.advance((write.delay_us - 1) / SECOND)
        assert await claim(store) == []
        clock.advance(US)
        assert ids(await claim(store)) == [job.id]

    async def test_settle_fails_for_good_when_no_attempt_is_left(self, store: Store, clock: FakeClock) -> None:
        await enqueue(store, new_job("a", max_attempts=3))
        for _ in range(3):
            assert await settle(store, failed(await claim_one(store))) == [Outcome.APPLIED]

        job = await read(store, "a")
        assert (job.status, job.attempts, job.fence, job.completed_us) == (Status.FAILED, 3, 3, clock.now())
        assert (job.settled_as, job.error) == (EventName.FAILED, Error("it broke", "ValueError"))
        assert await claim(store) == []

    async def test_settle_fails_for_good_if_not_retryable(self, store: Store) -> None:
        job = await enqueue_and_claim(store, new_job(max_attempts=9))
        await settle(store, failed(job, retryable=False))

        after = await read(store, job.id)
        assert (after.status, after.attempts, after.due_us) == (Status.FAILED, 1, job.due_us)

    @pytest.mark.parametrize("text", ["", "🦆 naïve", "a\x00b", "<b>'\"\\", "x" * 4000], ids=range(5))
    async def test_settle_keeps_the_error(self, store: Store, text: str) -> None:
        job = await enqueue_and_claim(store)
        error = Error(text, "Kind", text or None, text or None)
        await settle(store, failed(job, error=error))

        assert (await read(store, job.id)).error == error

    async def test_settle_completes_a_retry_and_clears_the_error(self, store: Store) -> None:
        job = await enqueue_and_claim(store)
        await settle(store, failed(job))
        again = await claim_one(store)
        assert again.error == Error("it broke", "ValueError")
        await settle(store, completed(again))

        after = await read(store, job.id)
        assert (after.status, after.attempts, after.fence, after.error) == (Status.COMPLETED, 2, 2, None)

    async def test_settle_releases(self, store: Store, clock: FakeClock) -> None:
        job = await enqueue_and_claim(store)
        clock.advance(2)

        [written] = await store.write([released(job)])

        after = await read(store, job.id)
        assert written == (Outcome.APPLIED, after.status)
        assert after == replace(
            job,
            lease_token="",
            status=Status.PENDING,
            updated_us=clock.now(),
            settled_as=EventName.RELEASED,
            events=3,
        )
        assert (after.attempts, after.due_us) == (0, job.due_us)
        assert ids(await claim(store)) == [job.id]

    @pytest.mark.parametrize("delay", [0, 5])
    async def test_settle_releases_for_later(self, store: Store, clock: FakeClock, delay: int) -> None:
        job = await enqueue_and_claim(store)
        clock.advance(2)
        await settle(store, released(job, delay=delay))

        after = await read(store, job.id)
        assert (after.attempts, after.due_us) == (0, clock.now() + delay * SECOND)
        clock.advance(delay)
        assert ids(await claim(store)) == [job.id]

    async def test_settle_releases_any_number_of_times(self, store: Store) -> None:
        await enqueue(store, new_job(max_attempts=1))
        for fence in range(1, 11):
            job = await claim_one(store)
            assert (job.fence, job.attempts) == (fence, 0)
            await settle(store, released(job))

    async def test_settle_twice_is_repeated_and_changes_nothing(self, store: Store, clock: FakeClock) -> None:
        await enqueue(store, *new_jobs(4))
        a, b, c, d = await claim(store)
        writes = [completed(a, b"1"), failed(b, delay=5), failed(c, retryable=False), released(d, delay=5)]
        first = await store.write(writes)
        before = await store.get([job.id for job in (a, b, c, d)])
        clock.advance(1)

        again = await store.write([completed(a, b"2"), failed(b, delay=9), failed(c), released(d)])

        assert [written.outcome for written in again] == [Outcome.REPEATED] * 4
        assert [written.status for written in again] == [written.status for written in first]
        assert await store.get([job.id for job in (a, b, c, d)]) == before
        assert [len(await store.log(job.id)) for job in (a, b, c, d)] == [3] * 4

    async def test_settle_twice_in_one_call(self, store: Store) -> None:
        job = await enqueue_and_claim(store)

        assert await settle(store, completed(job, b"1"), completed(job, b"2")) == [Outcome.APPLIED, Outcome.REPEATED]
        assert (await read(store, job.id)).result_json == b"1"

    async def test_settle_in_two_ways_in_one_call(self, store: Store) -> None:
        job = await enqueue_and_claim(store)

        assert await settle(store, released(job), completed(job)) == [Outcome.APPLIED, Outcome.LOST]
        assert (await read(store, job.id)).status is Status.PENDING

    async def test_settle_is_repeated_until_the_job_is_claimed_again(self, store: Store) -> None:
        job = await enqueue_and_claim(store)
        await settle(store, failed(job))
        assert await settle(store, failed(job)) == [Outcome.REPEATED]
        await claim_one(store)

        assert await settle(store, failed(job)) == [Outcome.LOST]

    async def test_settle_is_missing_once_the_job_is_gone(self, store: Store) -> None:
        job = await enqueue_and_claim(store, new_job(keep=0))
        assert await settle(store, completed(job)) == [Outcome.APPLIED]

        assert await store.write([completed(job)]) == [(Outcome.MISSING, None)]
        assert await settle(store, completed(replace(job, id="never"))) == [Outcome.MISSING]

    async def test_settle_of_a_lease_that_ran_out_and_that_no_one_took(self, store: Store, clock: FakeClock) -> None:
        await enqueue(store, *new_jobs(3))
        a, b, c = await claim(store, lease=1)
        clock.advance(1000)

        assert await settle(store, completed(a), failed(b), released(c)) == [Outcome.APPLIED] * 3

    async def test_settle_refuses_a_claim_that_was_taken_over(self, store: Store, clock: FakeClock) -> None:
        await enqueue(store, new_job(retry=Backoff(base=0)))
        first = await claim_one(store, lease=10)
        clock.advance(11)
        await reap(store, clock)
        second = await claim_one(store, lease=10)

        assert await settle(store, completed(first)) == [Outcome.LOST]
        assert await settle(store, completed(second)) == [Outcome.APPLIED]
        assert await settle(store, completed(second)) == [Outcome.REPEATED]

    async def test_settle_refuses_a_worker_that_came_back_under_its_old_name(self, store: Store) -> None:
        old = await enqueue_and_claim(store, new_job())
        await settle(store, released(old))
        new = await claim_one(store, "worker")

        assert old.worker_id == new.worker_id
        assert await settle(store, completed(old), failed(old)) == [Outcome.LOST] * 2
        assert (await read(store, old.id)).status is Status.CLAIMED

    @pytest.mark.parametrize("fence", [-1, 0, 2, 2**62])
    async def test_settle_compares_the_fence(self, store: Store, fence: int) -> None:
        job = await enqueue_and_claim(store)
        wrong = replace(job, fence=fence)

        assert await settle(store, completed(wrong), failed(wrong), released(wrong)) == [Outcome.LOST] * 3
        assert (await read(store, job.id)).status is Status.CLAIMED

    @pytest.mark.parametrize("token", ["", "other", "TOKEN", "token ", "toke", "tökén"])
    async def test_settle_compares_the_token(self, store: Store, token: str) -> None:
        job = await enqueue_and_claim(store, new_job(), under="token")
        wrong = replace(job, lease_token=token)

        assert await settle(store, completed(wrong), failed(wrong), released(wrong)) == [Outcome.LOST] * 3
        await settle(store, completed(job))
        assert await settle(store, completed(wrong)) == [Outcome.LOST]  # and it is not repeated to a stranger

    async def test_settle_with_another_job_s_claim_is_lost(self, store: Store) -> None:
        mine, other = await enqueue_and_claim(store, new_job("a")), await enqueue_and_claim(store, new_job("b"))

        assert await settle(store, transitions.complete(Ref("b", mine.fence, mine.lease_token))) == [Outcome.LOST]
        assert await settle(store, completed(other)) == [Outcome.APPLIED]

    async def test_settle_answers_each_for_itself(self, store: Store) -> None:
        await enqueue(store, *new_jobs(3))
        a, b, c = await claim(store)
        await settle(store, released(b))

        written = await store.write(
            [completed(b), completed(replace(a, id="none")), completed(c), failed(a, retryable=False)]
        )

        assert [outcome for outcome, _ in written] == [Outcome.LOST, Outcome.MISSING, Outcome.APPLIED, Outcome.APPLIED]
        assert [status for _, status in written] == [Status.PENDING, None, Status.COMPLETED, Status.FAILED]

    async def test_settle_of_nothing(self, store: Store) -> None:
        assert await store.write([]) == []

    async def test_settle_keeps_the_progress(self, store: Store) -> None:
        job = await enqueue_and_claim(store)
        await store.extend([Extension(job.ref, 0.5, "half")])
        await settle(store, completed(job))

        after = await read(store, job.id)
        assert (after.progress, after.progress_note) == (0.5, "half")
