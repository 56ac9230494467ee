"""Two stores on one database, as two processes have them; for stores whose ``capabilities.shared`` is set."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from dibs.clock import FakeClock
from dibs.domain.job import Extension, Outcome
from dibs.testing.conformance.base import Suite, ordered
from dibs.testing.conformance.builders import (
    claim,
    claim_one,
    completed,
    enqueue,
    expired,
    failed,
    find,
    ids,
    new_job,
    new_jobs,
    one,
    pause,
    read,
    settle,
)
from dibs.testing.conformance.log import assert_replays
from dibs.testing.conformance.restore import lives
from dibs.testing.conformance.wait import Waiting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dibs.store import Store

HOUR = 3600


class SharedStoreSuite(Suite):
    """Give ``subject`` as for ``StoreSuite``, and ``second_subject``: another on the same data, on ``second_clock``."""

    @pytest.fixture
    def second_clock(self) -> FakeClock:
        return FakeClock(seed=1)

    @pytest.fixture
    def second_subject(self, second_clock: FakeClock) -> Store:
        raise NotImplementedError(f"{type(self).__name__} needs a fixture `second_subject` on {second_clock}")

    @pytest_asyncio.fixture
    async def second(self, store: Store, second_subject: Store) -> AsyncIterator[Store]:
        assert store.capabilities.shared
        await second_subject.open()
        yield second_subject
        await second_subject.close()

    async def test_claim_hands_each_job_to_one_of_two_stores(self, store: Store, second: Store) -> None:
        drafts = new_jobs(100)
        await enqueue(store, *drafts)

        async def work(on: Store) -> list[str]:
            taken = []
            while jobs := await claim(on, limit=2):
                taken += ids(jobs)
            return taken

        taken = await asyncio.gather(*(work(on) for on in (store, second) * 4))

        assert sorted(id for each in taken for id in each) == sorted(ids(drafts))
        assert await store.get(ids(drafts)) == await second.get(ids(drafts))

    async def test_restore_of_the_same_by_two_stores_puts_each_down_once(
        self, store: Store, second: Store, clock: FakeClock
    ) -> None:
        items = await lives(clock)
        answers = await asyncio.gather(*(on.restore(items) for on in (store, second) * 3))

        for (job, events), *found in zip(items, *answers, strict=True):
            assert found.count(None) == 1
            assert [one for one in found if one is not None] == [job] * 5
            assert await second.log(job.id) == events
        assert len(await find(second)) == len(items)

    async def test_insert_with_one_key_makes_one_job_on_two_stores(self, store: Store, second: Store) -> None:
        groups = await asyncio.gather(
            *(enqueue(on, new_job(idempotency_key=key)) for on in (store, second) * 8 for key in "ab")
        )

        assert sum(not job.was_duplicate for [job] in groups) == len(await find(second)) == 2

    async def test_settle_on_the_other_store(self, store: Store, second: Store) -> None:
        await enqueue(store, *new_jobs(3))
        a, b, c = await claim(store)

        assert await second.extend([Extension(a.ref)]) == [Outcome.APPLIED]
        assert await settle(second, completed(a), failed(b)) == [Outcome.APPLIED] * 2
        assert await settle(store, completed(a), failed(b)) == [Outcome.REPEATED] * 2
        assert await settle(store, completed(c)) == [Outcome.APPLIED]

    async def test_settle_has_one_winner_on_two_stores(
        self, store: Store, second: Store, clock: FakeClock, second_clock: FakeClock
    ) -> None:
        for _ in range(10):
            [job] = await enqueue(store, new_job())
            job = await claim_one(store, id=job.id, lease=1)
            clock.advance(1)
            second_clock.advance(1)

            outcomes = await asyncio.gather(
                *(settle(on, write) for on in (store, second) for write in (completed(job), expired(job, clock)))
            )

            applied = [outcome for [outcome] in outcomes].count(Outcome.APPLIED)
            assert applied == 1
            await assert_replays(second, [await read(second, job.id)])

    async def test_claim_of_a_queue_paused_on_the_other_store(self, store: Store, second: Store) -> None:
        await enqueue(store, new_job())
        await pause(store, "default")

        assert await claim(second) == []

    async def test_put_lets_one_of_two_stores_win(self, store: Store, second: Store) -> None:
        answers = await asyncio.gather(*(on.put("a", b"1", expect=0) for on in (store, second) * 8))

        assert sum(answer is not None for answer in answers) == 1

    async def test_wait_ends_when_a_job_comes_on_the_other_store(
        self, store: Store, second: Store, clock: FakeClock
    ) -> None:
        waiting = Waiting(store, clock, one())
        await waiting.settled()
        await enqueue(second, new_job("a"))

        assert await waiting.got() == "a"

    @ordered("queue")
    async def test_now_is_never_earlier_on_the_other_store(
        self, store: Store, second: Store, second_clock: FakeClock
    ) -> None:
        second_clock.advance(-HOUR)  # the other machine's clock is behind
        drafts = new_jobs(6)
        for draft, on in zip(drafts, (store, second) * 3, strict=True):
            await enqueue(on, draft)
        times = [job.created_us for job in await find(store, oldest_first=True)]

        assert times == sorted(times)
        assert ids(await claim(second)) == ids(drafts)

    async def test_extend_never_shortens_on_the_other_store(
        self, store: Store, second: Store, clock: FakeClock, second_clock: FakeClock
    ) -> None:
        second_clock.advance(-HOUR)
        await enqueue(store, new_job())
        job = await claim_one(store, lease=30)
        clock.advance(20)
        await store.extend([Extension(job.ref)])
        end = (await read(store, job.id)).lease_expires_us

        assert await second.extend([Extension(job.ref)]) == [Outcome.APPLIED]
        assert (await read(store, job.id)).lease_expires_us == end

    async def test_close_keeps_what_was_acknowledged(self, store: Store, second_subject: Store) -> None:
        if not store.capabilities.durable:
            pytest.skip("the store says that it is not durable")
        await enqueue(store, *new_jobs(3))
        first, *_ = await claim(store, limit=2)
        await settle(store, completed(first, b"1"))
        await store.put("a", b"1")
        before, log = await find(store), await store.log(first.id)
        await store.close()
        await second_subject.open()

        assert await find(second_subject) == before
        assert await second_subject.log(first.id) == log
        assert [document.value for document in await second_subject.documents("")] == [b"1"]
        assert len(await claim(second_subject)) == 1
        await second_subject.close()
