"""Many at once, on one event loop and on many: one winner each time, and nothing lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import pytest

from dibs.domain import transitions
from dibs.domain.job import Extension, Outcome, Status
from dibs.domain.retry import Backoff
from dibs.store import Refusal
from dibs.testing.conformance.base import Suite
from dibs.testing.conformance.builders import (
    claim,
    completed,
    enqueue,
    enqueue_and_claim,
    expired,
    failed,
    find,
    ids,
    in_threads,
    named,
    new_job,
    new_jobs,
    read,
    released,
    settle,
)
from dibs.testing.conformance.log import assert_replays

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any, TypeVar

    from dibs.clock import FakeClock
    from dibs.store import Store

    T = TypeVar("T")

MANY = 32


async def in_tasks(functions: Sequence[Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
    """Run all at once on this event loop."""
    return list(await asyncio.gather(*(function() for function in functions)))


AT_ONCE = pytest.mark.parametrize("at_once", [in_tasks, in_threads], ids=["tasks", "threads"])

if TYPE_CHECKING:
    AtOnce = Callable[[Sequence[Callable[[], Coroutine[Any, Any, Any]]]], Coroutine[Any, Any, list[Any]]]


class ConcurrencySuite(Suite):
    """Races that a store must decide."""

    @AT_ONCE
    async def test_counts_miss_no_job_that_moves(self, store: Store, at_once: AtOnce) -> None:
        """Wherever it is on its way, it is counted once: who waits until nothing is left must not be told so early."""
        await enqueue(store, *new_jobs(200))
        done: list[int] = []

        def worker(name: str) -> Callable[[], Coroutine[Any, Any, None]]:
            async def work() -> None:
                while jobs := await claim(store, name, limit=2):
                    await settle(store, *(completed(job) for job in jobs))
                done.append(1)

            return work

        async def look() -> None:
            while len(done) < 8:
                await asyncio.sleep(0)  # a store may answer without giving way
                for counts in (await store.counts(), await store.counts("default")):
                    assert (counts.pending + counts.claimed + counts.completed, counts.scheduled) == (200, 0)

        await at_once([look, *(worker(f"worker-{n}") for n in range(8))])

    @AT_ONCE
    async def test_claim_hands_each_job_to_one_of_many(self, store: Store, at_once: AtOnce) -> None:
        drafts = new_jobs(200)
        await enqueue(store, *drafts)

        def worker(name: str, limit: int) -> Callable[[], Coroutine[Any, Any, list[str]]]:
            async def work() -> list[str]:
                taken: list[str] = []
                while jobs := await claim(store, name, limit=limit):
                    assert len(jobs) <= limit
                    taken += ids(jobs)
                return taken

            return work

        taken = await at_once([worker(f"worker-{n}", 1 + n % 3) for n in range(MANY)])

        assert sorted(id for each in taken for id in each) == sorted(ids(drafts))
        jobs = await find(store, limit=1000)
        assert {job.fence for job in jobs} == {1}
        assert Counter(job.worker_id for job in jobs) == {f"worker-{n}": len(got) for n, got in enumerate(taken) if got}

    @AT_ONCE
    async def test_claim_by_id_has_one_winner(self, store: Store, at_once: AtOnce) -> None:
        await enqueue(store, new_job("a"))

        claims = await at_once([lambda: claim(store, id="a")] * MANY)

        assert sum(map(len, claims)) == 1
        assert (await read(store, "a")).fence == 1

    @AT_ONCE
    @pytest.mark.parametrize("field", ["id", "idempotency_key", "unique_key"])
    async def test_insert_with_one_key_makes_one_job(self, store: Store, at_once: AtOnce, field: str) -> None:
        drafts = [named(field, "same") for _ in range(MANY)]

        groups = await at_once([partial(enqueue, store, draft) for draft in drafts])

        jobs = [job for group in groups for job in group]
        assert len(set(ids(jobs))) == len(await find(store)) == 1
        assert sum(not job.was_duplicate for job in jobs) == 1

    @AT_ONCE
    async def test_insert_of_different_params_under_one_key_takes_one(self, store: Store, at_once: AtOnce) -> None:
        drafts = [[new_job(idempotency_key="same", params=b"%d" % n), new_job()] for n in range(MANY)]

        answers = await at_once([partial(store.insert, [group]) for group in drafts])

        refused = [answer for [answer] in answers if isinstance(answer, Refusal)]
        assert len(refused) == MANY - 1
        assert {(refusal.index, refusal.field) for refusal in refused} == {(0, "idempotency_key")}
        assert len(await find(store)) == 2

    @AT_ONCE
    async def test_settle_reap_and_cancel_have_one_winner(
        self, store: Store, clock: FakeClock, at_once: AtOnce
    ) -> None:
        for _ in range(5):
            job = await enqueue_and_claim(store, new_job(), lease=1)
            clock.advance(1)
            writes = [completed(job), failed(job), released(job, 60), expired(job, clock), transitions.cancel(job.id)]

            outcomes = await at_once([partial(settle, store, write) for write in writes * 4])

            assert Counter(outcome for [outcome] in outcomes)[Outcome.APPLIED] in {1, 2}  # a retry can be cancelled
            log = await store.log(job.id)
            assert len([event for event in log if event.from_ is Status.CLAIMED]) == 1
            await assert_replays(store, [await read(store, job.id)])
            await settle(store, transitions.cancel(job.id))

    @AT_ONCE
    async def test_settle_once_of_many_times(self, store: Store, at_once: AtOnce) -> None:
        job = await enqueue_and_claim(store)

        outcomes = await at_once([lambda: settle(store, completed(job))] * MANY)

        assert Counter(outcome for [outcome] in outcomes) == {Outcome.APPLIED: 1, Outcome.REPEATED: MANY - 1}
        assert (await read(store, job.id)).attempts == 1

    @AT_ONCE
    async def test_extend_or_reap_but_not_both(self, store: Store, clock: FakeClock, at_once: AtOnce) -> None:
        for _ in range(10):
            job = await enqueue_and_claim(store, new_job(), lease=60)
            clock.advance(60)

            async def extend(job: Any = job) -> Outcome:
                # Busy: nothing has changed, and whoever asks again is answered. A broker does.
                while (outcome := (await store.extend([Extension(job.ref)]))[0]) is Outcome.BUSY:
                    pass
                return outcome

            async def take(job: Any = job) -> Outcome:
                while (outcome := (await settle(store, expired(job, clock)))[0]) is Outcome.BUSY:
                    pass
                return outcome

            extended, taken = await at_once([extend, take])

            assert sorted([extended, taken]) == [Outcome.APPLIED, Outcome.LOST]
            status = (await read(store, job.id)).status
            assert status is (Status.CLAIMED if extended is Outcome.APPLIED else Status.PENDING)
            await settle(store, transitions.cancel(job.id))

    @AT_ONCE
    async def test_redrive_of_one_unique_key_takes_one(self, store: Store, at_once: AtOnce) -> None:
        for n in range(8):
            await enqueue(store, new_job(str(n), unique_key="same"))
            await settle(store, transitions.cancel(str(n)))

        outcomes = await at_once([partial(settle, store, transitions.redrive(str(n))) for n in range(8)])

        assert Counter(outcome for [outcome] in outcomes) == {Outcome.APPLIED: 1, Outcome.CONFLICT: 7}

    @AT_ONCE
    async def test_everything_at_once_loses_nothing(self, store: Store, clock: FakeClock, at_once: AtOnce) -> None:
        def produce(n: int) -> Callable[[], Coroutine[Any, Any, int]]:
            async def work() -> int:
                for i in range(10):
                    await enqueue(store, *(new_job(f"{n}-{i}-{k}", retry=Backoff(base=0)) for k in range(2)))
                return 0

            return work

        def consume(n: int) -> Callable[[], Coroutine[Any, Any, int]]:
            async def work() -> int:
                ended, idle = 0, 0
                while idle < 20:
                    jobs = await claim(store, f"w{n}", limit=3)
                    idle = 0 if jobs else idle + 1
                    for at, job in enumerate(jobs):
                        write = released(job) if at == 2 and job.fence < 3 else completed(job)
                        assert await settle(store, write) == [Outcome.APPLIED]
                        ended += write.counts
                    await asyncio.sleep(0)
                return ended

            return work

        ended = await at_once([produce(n) for n in range(8)] + [consume(n) for n in range(8)])
        ended.append(await consume(99)())  # in case that all consumers were done before the last producer

        counts = await store.counts()
        assert (counts.completed, counts.unfinished, sum(ended)) == (160, 0, 160)
        await assert_replays(store, await find(store, limit=20))
        assert clock.now() == await store.now()
