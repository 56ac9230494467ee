"""wait: those who look for work hear of it soon."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from msgspec.structs import replace

from dibs.domain import transitions
from dibs.stores.memory import MemoryStore
from dibs.testing.conformance.base import Suite
from dibs.testing.conformance.builders import (
    FOREVER,
    claim,
    claim_one,
    completed,
    enqueue,
    enqueue_and_claim,
    expired,
    failed,
    new_job,
    one,
    pause,
    released,
    resume,
    settle,
    soon,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from dibs.clock import FakeClock
    from dibs.domain.job import ClaimRequest
    from dibs.store import Store


class Waiting:
    """A claimer as the broker is one: claims, waits if there is nothing, and claims again."""

    def __init__(self, store: Store, clock: FakeClock, request: ClaimRequest) -> None:
        self._store, self._clock, self._request = store, clock, request
        self.looks = 0
        self._looked = asyncio.Event()
        self._timers = clock.timers
        self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> str:
        heard: frozenset[str] | None = None
        while True:
            self.looks += 1
            [jobs] = await self._store.claim([replace(self._request, heard=heard)])
            self._looked.set()
            if jobs:
                return jobs[0].id
            heard = await self._store.wait(self._request, FOREVER)

    async def settled(self) -> None:
        """Let it look, and begin to wait: the time is not to be moved between the two, as real time never is so far."""
        await self._looked.wait()
        for _ in range(50):
            await asyncio.sleep(0.02)
            if self._clock.timers > self._timers:
                break
        self._timers = self._clock.timers

    async def got(self) -> str:
        """Say which job it got, soon."""
        return await soon(self.task, self._clock)


if TYPE_CHECKING:
    Start = Callable[..., Awaitable[Waiting]]


class WaitSuite(Suite):
    """A hint may come early, so nothing here minds if it does; but it must come."""

    @pytest_asyncio.fixture
    async def start(self, store: Store, clock: FakeClock) -> AsyncIterator[Start]:
        waiting = []

        async def start(**asked: Any) -> Waiting:
            waiting.append(Waiting(store, clock, one(**asked)))
            await waiting[-1].settled()
            return waiting[-1]

        yield start
        for each in waiting:
            each.task.cancel()
        await asyncio.gather(*(each.task for each in waiting), return_exceptions=True)

    async def test_wait_ends_at_once_if_a_job_is_there(self, store: Store, clock: FakeClock) -> None:
        await enqueue(store, new_job())

        await soon(asyncio.ensure_future(store.wait(one(), FOREVER)), clock)

    async def test_wait_ends_when_the_time_is_over(self, store: Store, clock: FakeClock) -> None:
        running = asyncio.ensure_future(store.wait(one(), 5))
        await asyncio.sleep(0.02)
        clock.advance(5)

        await soon(running, clock)
        await soon(asyncio.ensure_future(store.wait(one(), 0)), clock)

    async def test_wait_ends_when_a_job_comes(self, store: Store, start: Start) -> None:
        waiting = await start()
        await enqueue(store, new_job("a"))

        assert await waiting.got() == "a"

    async def test_wait_ends_when_a_job_is_restored(self, store: Store, clock: FakeClock, start: Start) -> None:
        other = MemoryStore(clock)
        [job] = await enqueue(other, new_job("a"))
        waiting = await start()
        await store.restore([(job, await other.log("a"))])

        assert await waiting.got() == "a"

    async def test_wait_ends_when_a_job_is_released(self, store: Store, start: Start) -> None:
        job = await enqueue_and_claim(store, new_job("a"))
        waiting = await start()
        await settle(store, released(job))

        assert await waiting.got() == "a"

    async def test_wait_ends_when_a_job_is_to_be_tried_again(self, store: Store, start: Start) -> None:
        job = await enqueue_and_claim(store, new_job("a"))
        waiting = await start()
        await settle(store, failed(job))

        assert await waiting.got() == "a"

    @pytest.mark.parametrize("begun", ["before", "after"])
    async def test_wait_ends_when_a_job_falls_due(
        self, store: Store, clock: FakeClock, start: Start, begun: str
    ) -> None:
        if begun == "before":
            await enqueue(store, new_job("a", delay=60))
        waiting = await start()
        if begun == "after":
            await enqueue(store, new_job("a", delay=60))
            await waiting.settled()
        assert not waiting.task.done()
        clock.advance(60)

        assert await waiting.got() == "a"

    async def test_wait_ends_when_a_back_off_is_over(self, store: Store, clock: FakeClock, start: Start) -> None:
        job = await enqueue_and_claim(store, new_job("a"), lease=10)
        waiting = await start()
        clock.advance(10)
        await settle(store, failed(job, delay=60))
        await waiting.settled()
        clock.advance(60)

        assert await waiting.got() == "a"

    async def test_wait_ends_when_a_lease_was_reaped(self, store: Store, clock: FakeClock, start: Start) -> None:
        job = await enqueue_and_claim(store, new_job("a"), lease=10)
        waiting = await start()
        clock.advance(10)
        await settle(store, expired(job, clock))
        clock.advance(1)

        assert await waiting.got() == "a"

    async def test_wait_ends_when_a_job_is_redriven(self, store: Store, start: Start) -> None:
        job = await enqueue_and_claim(store, new_job("a"))
        await settle(store, completed(job))
        waiting = await start()
        await settle(store, transitions.redrive("a"))

        assert await waiting.got() == "a"

    async def test_wait_ends_when_a_queue_is_resumed(self, store: Store, start: Start) -> None:
        await pause(store, "default")
        await enqueue(store, new_job("a"))
        waiting = await start()
        assert not waiting.task.done()
        await resume(store, "default")

        assert await waiting.got() == "a"

    async def test_wait_ends_for_each_who_can_have_one(self, store: Store, start: Start) -> None:
        waiting = [await start(queues=(queue,)) for queue in "ab" for _ in range(3)]
        await enqueue(store, *(new_job(f"{queue}{n}", queue=queue) for n in range(3) for queue in "ba"))

        got = [await each.got() for each in waiting]
        assert sorted(got) == ["a0", "a1", "a2", "b0", "b1", "b2"]
        assert {id[0] for id in got[:3]} == {"a"}

    async def test_wait_goes_on_after_a_job_that_another_took(
        self, store: Store, clock: FakeClock, start: Start
    ) -> None:
        waiting = await start()
        await enqueue(store, new_job("a", delay=60))
        clock.advance(60)
        taken = await claim(store, limit=1)
        await enqueue(store, new_job("b"))

        assert await waiting.got() == ("b" if taken else "a")

    @pytest.mark.parametrize("when", ["before", "after"])
    async def test_wait_finds_what_is_in_any_queue_though_another_took_the_first(
        self, store: Store, start: Start, when: str
    ) -> None:
        """A store may say of which queues it has heard, and is then asked for these alone."""
        for turn in range(4):
            waiting = await start()
            news = [new_job(f"{queue}-{turn}", queue=f"{queue}-{turn}") for queue in "ab"]
            if when == "before":
                await enqueue(store, *news)
                taken = [job.id for job in await claim(store, queues=(f"a-{turn}",))]
            else:
                await enqueue(store, news[0])
                taken = [job.id for job in await claim(store, queues=(f"a-{turn}",))]
                await enqueue(store, news[1])

            got = await waiting.got()
            assert got in {f"a-{turn}", f"b-{turn}"} - set(taken)
            await claim(store, limit=2)

    async def test_wait_does_not_spin(self, store: Store, start: Start) -> None:
        await enqueue(store, new_job(queue="other"), new_job(delay=60), new_job("paused", queue="paused"))
        await pause(store, "paused")
        waiting = await start(queues=("default", "paused"))
        await asyncio.sleep(0.3)

        assert waiting.looks < 100

    async def test_wait_can_be_given_up(self, store: Store, clock: FakeClock) -> None:
        running = asyncio.ensure_future(store.wait(one(), FOREVER))
        await asyncio.sleep(0.02)
        running.cancel()
        with suppress(asyncio.CancelledError):  # unless it had come back early
            await soon(running, clock)

        await enqueue(store, new_job("a"))
        assert (await claim_one(store)).id == "a"
