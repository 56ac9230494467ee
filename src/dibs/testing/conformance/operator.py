"""write: cancel, redrive and purge, by whoever runs the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from dibs.domain import transitions
from dibs.domain.job import EventName, Extension, Outcome, Status
from dibs.testing.conformance.base import Suite
from dibs.testing.conformance.builders import (
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
    settle,
)

if TYPE_CHECKING:
    from dibs.clock import FakeClock
    from dibs.store import Store


class OperatorSuite(Suite):
    """From outside any claim."""

    async def test_cancel_a_pending_job(self, store: Store, clock: FakeClock) -> None:
        [job] = await enqueue(store, new_job(delay=60))
        clock.advance(1)

        [written] = await store.write([transitions.cancel(job.id, "ann")])

        after = await read(store, job.id)
        assert written == (Outcome.APPLIED, after.status)
        assert after == replace(
            job, status=Status.CANCELLED, completed_us=clock.now(), updated_us=clock.now(), events=2
        )

    async def test_cancel_a_claimed_job(self, store: Store) -> None:
        job = await enqueue_and_claim(store)

        assert await settle(store, transitions.cancel(job.id)) == [Outcome.APPLIED]
        assert await store.extend([Extension(job.ref)]) == [Outcome.LOST]
        assert await settle(store, completed(job), failed(job)) == [Outcome.LOST] * 2

        after = await read(store, job.id)
        assert (after.status, after.attempts, after.fence) == (Status.CANCELLED, 0, 1)
        assert (after.settled_as, after.worker_id, after.result_json) == (EventName.CANCELLED, "worker", None)

    async def test_cancel_keeps_the_attempts(self, store: Store) -> None:
        job = await enqueue_and_claim(store)
        await settle(store, failed(job))
        await settle(store, transitions.cancel(job.id))

        after = await read(store, job.id)
        assert (after.attempts, after.error is None) == (1, False)

    async def test_cancel_twice_is_repeated(self, store: Store) -> None:
        [job] = await enqueue(store, new_job())

        assert await settle(store, *[transitions.cancel(job.id)] * 2) == [Outcome.APPLIED, Outcome.REPEATED]
        assert await settle(store, transitions.cancel(job.id, "bob")) == [Outcome.REPEATED]
        assert [event.actor for event in await store.log(job.id)] == [None, None]

    @pytest.mark.parametrize("end", ["complete", "fail", "cancel"])
    async def test_redrive_starts_the_job_anew(self, store: Store, clock: FakeClock, end: str) -> None:
        job = await enqueue_and_claim(store, new_job(idempotency_key="key", unique_key="unique"))
        await store.extend([Extension(job.ref, 0.5, "half")])
        write = {"complete": completed(job, b"1"), "fail": failed(job, retryable=False)}
        await settle(store, write.get(end, transitions.cancel(job.id)))
        before = await read(store, job.id)
        clock.advance(5)

        [written] = await store.write([transitions.redrive(job.id, "ann")])

        after = await read(store, job.id)
        assert written == (Outcome.APPLIED, after.status)
        assert after == replace(
            before,
            status=Status.PENDING,
            due_us=clock.now(),
            attempts=0,
            result_json=None,
            error=None,
            progress=None,
            progress_note="",
            completed_us=None,
            updated_us=clock.now(),
            events=4,
        )
        assert (after.idempotency_key, after.unique_key, after.fence) == ("key", "unique", 1)
        assert (await claim_one(store)).fence == 2

    async def test_redrive_gives_all_attempts_back(self, store: Store) -> None:
        await enqueue(store, new_job("a", max_attempts=2))
        for _ in range(2):
            await settle(store, failed(await claim_one(store)))
        assert (await read(store, "a")).status is Status.FAILED
        await settle(store, transitions.redrive("a"))
        await settle(store, failed(await claim_one(store)))

        job = await read(store, "a")
        assert (job.status, job.attempts, job.fence) == (Status.PENDING, 1, 3)

    async def test_redrive_leaves_a_repeated_settle_repeated(self, store: Store) -> None:
        job = await enqueue_and_claim(store)
        await settle(store, failed(job, retryable=False))
        await settle(store, transitions.redrive(job.id))

        assert await settle(store, failed(job, retryable=False)) == [Outcome.REPEATED]
        assert await settle(store, completed(job)) == [Outcome.LOST]
        assert (await read(store, job.id)).status is Status.PENDING
        await claim_one(store)
        assert await settle(store, failed(job, retryable=False)) == [Outcome.LOST]

    async def test_redrive_of_a_unique_key_that_is_taken_is_a_conflict(self, store: Store) -> None:
        old = await enqueue_and_claim(store, new_job("old", unique_key="unique"))
        await settle(store, failed(old, retryable=False))
        [new] = await enqueue(store, new_job("new", unique_key="unique"))
        before, log = await read(store, "old"), await store.log("old")

        assert await store.write([transitions.redrive("old")]) == [(Outcome.CONFLICT, before.status)]
        assert (await read(store, "old"), await store.log("old")) == (before, log)

        await settle(store, completed(await claim_one(store)))
        assert await settle(store, transitions.redrive("old")) == [Outcome.APPLIED]
        [again] = await enqueue(store, new_job(unique_key="unique"))
        assert (again.id, again.was_duplicate) == ("old", True)
        assert await settle(store, transitions.redrive(new.id)) == [Outcome.CONFLICT]

    async def test_redrive_of_two_with_one_unique_key_takes_one(self, store: Store) -> None:
        for id in ("a", "b"):
            job = await enqueue_and_claim(store, new_job(id, unique_key="unique"))
            await settle(store, completed(job))

        outcomes = await settle(store, transitions.redrive("a"), transitions.redrive("b"))

        first = 0 if self.order_reaches != "part" else outcomes.index(Outcome.APPLIED)  # of two parts either
        assert (outcomes[first], outcomes[1 - first]) == (Outcome.APPLIED, Outcome.CONFLICT)
        assert ids(await claim(store)) == ["ab"[first]]

    async def test_redrive_keeps_the_idempotency_key(self, store: Store) -> None:
        job = await enqueue_and_claim(store, new_job(idempotency_key="key"))
        await settle(store, completed(job))
        await settle(store, transitions.redrive(job.id))

        [again] = await enqueue(store, new_job(idempotency_key="key"))
        assert (again.id, again.was_duplicate) == (job.id, True)

    async def test_cancel_and_redrive_in_one_call(self, store: Store) -> None:
        await enqueue(store, new_job("a"))

        outcomes = await settle(store, transitions.cancel("a"), transitions.redrive("a"), transitions.redrive("a"))

        assert outcomes == [Outcome.APPLIED, Outcome.APPLIED, Outcome.LOST]
        assert (await read(store, "a")).events == 3

    async def test_purge_removes_a_finished_job_at_once(self, store: Store) -> None:
        job = await enqueue_and_claim(store, new_job(idempotency_key="key"))
        await settle(store, failed(job, retryable=False))

        assert await settle(store, transitions.purge(job.id, "ann")) == [Outcome.APPLIED]
        assert await store.get([job.id]) == [None]
        assert await settle(store, transitions.purge(job.id)) == [Outcome.MISSING]
        [new] = await enqueue(store, new_job(idempotency_key="key", params=b"2"))
        assert not new.was_duplicate

    async def test_operators_miss_a_job_that_is_not_there(self, store: Store) -> None:
        verbs = [transitions.cancel("none"), transitions.redrive("none"), transitions.purge("none")]

        assert await store.write(verbs) == [(Outcome.MISSING, None)] * 3
        assert await store.log("none") == []

    async def test_operators_answer_each_for_itself(self, store: Store) -> None:
        await enqueue(store, *(new_job(id) for id in "abc"))
        await settle(store, completed(await claim_one(store, id="b")))

        outcomes = await settle(store, *map(transitions.cancel, ["c", "none", "b", "a"]))

        assert outcomes == [Outcome.APPLIED, Outcome.MISSING, Outcome.LOST, Outcome.APPLIED]
        assert (await store.counts()).cancelled == 2

    async def test_cancel_of_a_thousand(self, store: Store) -> None:
        drafts = new_jobs(1000)
        await enqueue(store, *drafts)

        assert await settle(store, *map(transitions.cancel, ids(drafts))) == [Outcome.APPLIED] * 1000
        assert (await store.counts()).cancelled == 1000
