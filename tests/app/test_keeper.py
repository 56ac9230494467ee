"""Claims that are held stay held: beats at a third of the lease, in one call, whatever the handler's loop does."""
# ruff: noqa: ASYNC110, PT012 - a job is looked at until it changes; what a block raises is the subject

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

import dibs
from dibs import App, FakeClock, LeaseLost
from dibs.domain.job import Extension, Outcome, Ref
from dibs.keeper import Held, Keeper

LEASE = 9.0


class Beats:
    """Stands for a broker: remembers each call, answers as it is told, and says when it was called."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.answer: Callable[[str], Outcome] = lambda _: Outcome.APPLIED
        self.fails: Exception | None = None
        self.beaten = asyncio.Event()

    async def extend(self, extensions: Sequence[Extension]) -> list[Outcome]:
        self.calls.append([extension.ref.id for extension in extensions])
        self.beaten.set()
        if self.fails is not None:
            raise self.fails
        return [self.answer(extension.ref.id) for extension in extensions]


class Fixture:
    """A keeper on this loop, over a broker that only counts."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.broker = Beats()
        self.tasks: list[asyncio.Task[None]] = []
        self.keeper = Keeper(self.clock, lambda: self.broker, self.start)  # type: ignore[arg-type, return-value]
        self.lost: list[str] = []

    def start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self.tasks.append(asyncio.get_running_loop().create_task(coroutine))
        return self.tasks[-1]

    def hold(self, id: str, lease: float = LEASE):
        held = Held(Ref(id, 1, "t"), lease, self.clock.monotonic(), lambda: self.lost.append(id))
        self.keeper.hold([held])
        return held

    async def settle_down(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    async def advance(self, seconds: float) -> int:
        """Move time, let the keeper do what it does then, and say how many calls it has made."""
        before = len(self.broker.calls)
        self.clock.advance(seconds)
        await self.settle_down()
        return len(self.broker.calls) - before


@pytest.fixture
async def kept() -> Fixture:
    return Fixture()


async def test_keeper_beats_at_a_third_of_the_lease(kept: Fixture) -> None:
    kept.hold("a")
    await kept.settle_down()
    assert await kept.advance(2.9) == 0
    assert await kept.advance(0.1) == 1
    assert await kept.advance(2.9) == 0
    assert await kept.advance(0.1) == 1


async def test_keeper_beats_for_all_in_one_call(kept: Fixture) -> None:
    held = [kept.hold(id) for id in "abc"]
    kept.hold("slow", lease=300)
    await kept.settle_down()
    assert await kept.advance(3) == 1
    assert sorted(kept.broker.calls[0]) == ["a", "b", "c"]
    kept.keeper.drop(held[0])
    assert await kept.advance(3) == 1
    assert sorted(kept.broker.calls[1]) == ["b", "c"]


async def test_keeper_takes_along_what_is_nearly_due(kept: Fixture) -> None:
    kept.hold("a")
    await kept.advance(0.5)
    kept.hold("b")
    assert await kept.advance(2.5) == 1
    assert sorted(kept.broker.calls[0]) == ["a", "b"]


async def test_keeper_is_woken_by_a_claim_with_a_shorter_lease(kept: Fixture) -> None:
    kept.hold("long", lease=300)
    await kept.settle_down()
    kept.hold("short", lease=3)
    await kept.settle_down()
    assert await kept.advance(1) == 1
    assert kept.broker.calls == [["short"]]


async def test_keeper_sleeps_through_claims_that_come_and_go(kept: Fixture) -> None:
    kept.keeper.drop(kept.hold("first"))
    await kept.settle_down()
    assert kept.tasks[0].done(), "there was nothing to wait for"
    first = kept.hold("first")
    await kept.settle_down()
    assert len(kept.keeper._bell) == 1
    for id in "abc":
        kept.keeper.drop(kept.hold(id))
        assert len(kept.keeper._bell) == 1, "not woken"
    kept.keeper.drop(first)
    assert await kept.advance(3) == 0
    assert len(kept.tasks) == 2


async def test_keeper_rests_while_nothing_is_held(kept: Fixture) -> None:
    held = kept.hold("a")
    await kept.settle_down()
    kept.keeper.drop(held)
    await kept.advance(3)
    assert kept.broker.calls == []
    assert kept.tasks[0].done()
    kept.hold("b")
    await kept.settle_down()
    assert await kept.advance(3) == 1


async def test_keeper_tells_who_was_lost_and_no_one_else(kept: Fixture) -> None:
    kept.broker.answer = lambda id: Outcome.LOST if id == "a" else Outcome.APPLIED
    kept.hold("a")
    kept.hold("b")
    await kept.settle_down()
    assert await kept.advance(3) == 1
    assert kept.lost == ["a"]
    assert await kept.advance(3) == 1
    assert kept.broker.calls[-1] == ["b"]


@pytest.mark.parametrize("trouble", ["busy", "unavailable", "broken"])
async def test_keeper_tries_again_soon_and_calls_nothing_lost(kept: Fixture, trouble: str) -> None:
    if trouble == "busy":
        kept.broker.answer = lambda _: Outcome.BUSY
    else:
        kept.broker.fails = dibs.StoreUnavailable("away") if trouble == "unavailable" else ZeroDivisionError("bug")
    kept.hold("a")
    await kept.settle_down()
    assert await kept.advance(3) == 1
    assert await kept.advance(1) == 1, "well before the lease runs out"
    assert kept.lost == []
    kept.broker.answer, kept.broker.fails = lambda _: Outcome.APPLIED, None
    assert await kept.advance(1) == 1
    assert await kept.advance(1) == 0, "back to its rhythm"


async def test_keeper_does_not_hear_of_what_was_dropped_during_a_beat(kept: Fixture) -> None:
    held = kept.hold("a")

    def lost(_: str) -> Outcome:
        kept.keeper.drop(held)
        return Outcome.LOST

    kept.broker.answer = lost
    await kept.settle_down()
    assert await kept.advance(3) == 1
    assert kept.lost == []


# In an app


async def test_a_claim_inside_its_block_outlives_its_lease(app: App, clock: FakeClock) -> None:
    await app.enqueue("t")
    claim = await app.claim(lease=30)
    assert claim is not None
    async with claim:
        for _ in range(12):
            end = await _lease_end(app, claim.id)
            clock.advance(10)
            while await _lease_end(app, claim.id) == end:
                await asyncio.sleep(0)
        assert await app.claim() is None
        assert not claim.lost


async def _lease_end(app: App, id: str) -> int:
    job = await app.get(id)
    assert job is not None
    assert job.lease_expires_us is not None
    return job.lease_expires_us


async def test_a_lost_claim_is_told_to_the_handlers_loop(app: App, clock: FakeClock) -> None:
    await app.enqueue("t")
    claim = await app.claim(lease=30)
    assert claim is not None
    called = threading.Event()
    claim.on_lost(called.set)
    claim.on_lost(lambda: 1 // 0)  # type: ignore[arg-type]  # is logged, and harms no one
    with pytest.raises(LeaseLost):
        async with claim:
            waiting = asyncio.create_task(claim.lost_event.wait())
            await app.cancel(claim.id)
            clock.advance(10)
            await waiting
            assert claim.lost
    assert called.is_set()
    late = threading.Event()
    claim.on_lost(late.set)
    assert late.is_set()


async def test_a_claim_entered_late_is_extended_at_once(app: App, clock: FakeClock) -> None:
    await app.enqueue("t")
    claim = await app.claim(lease=30)
    assert claim is not None
    clock.advance(29)
    end = await _lease_end(app, claim.id)
    async with claim:
        while await _lease_end(app, claim.id) == end:
            await asyncio.sleep(0)


async def test_a_beat_that_meets_a_settled_claim_does_not_call_it_lost(app: App, clock: FakeClock) -> None:
    for _ in range(20):
        await app.enqueue("t")
        claim = await app.claim(lease=0.3)
        assert claim is not None
        async with claim:
            clock.advance(0.1)
            await claim.complete()
            clock.advance(0.1)
            await asyncio.sleep(0)
        assert not claim.lost


def block_the_loop(seconds: float) -> None:
    time.sleep(seconds)


def burn(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))


@pytest.mark.serial
@pytest.mark.parametrize("work", [block_the_loop, burn])
async def test_a_handler_that_hogs_its_loop_for_three_leases_keeps_its_claim(
    live: App, work: Callable[[float], None]
) -> None:
    job = await live.enqueue("t")
    claim = await live.claim(lease=0.5)
    assert claim is not None
    async with claim:
        work(1.5)
        assert not claim.lost
        assert await live.claim() is None
    assert [event.event for event in await live.log(job.id)] == ["enqueued", "claimed", "completed"]


@pytest.mark.serial
@pytest.mark.parametrize("work", [block_the_loop, burn])
def test_a_sync_handler_keeps_its_claim_too(url: str, work: Callable[[float], None]) -> None:
    with App(url).sync as queue:
        job = queue.enqueue("t")
        claim = queue.claim(lease=0.5)
        assert claim is not None
        with claim:
            work(1.5)
            assert not claim.lost
            assert queue.claim() is None
        assert [event.event for event in queue.log(job.id)] == ["enqueued", "claimed", "completed"]


# Without threads


class OneThread(FakeClock):
    """Everything on one loop, as a simulation has it."""

    threads = False


async def test_without_threads_beats_and_maintenance_run_on_the_callers_loop() -> None:
    clock = OneThread()
    before = threading.active_count()
    async with App("memory://", clock=clock) as app:
        await app.enqueue("t", retry=dibs.Backoff(base=0))
        claim = await app.claim(lease=30)
        assert claim is not None
        async with claim:
            for _ in range(10):
                clock.advance(10)
                for _ in range(10):
                    await asyncio.sleep(0)
            assert not claim.lost
        assert claim.settled
        await app.enqueue("t", retry=dibs.Backoff(base=0))
        left = await app.claim(lease=30)
        assert left is not None
        clock.advance(40)
        while [event.event for event in await app.log(left.id)][-1] != "expired":
            await asyncio.sleep(0)
        with pytest.raises(dibs.NotSupported):
            app.sync.counts()
        assert threading.active_count() <= before  # apps that other tests have dropped may end theirs meanwhile


async def test_without_threads_a_cancelled_claim_is_released() -> None:
    async with App("memory://", clock=OneThread()) as app:
        await app.enqueue("t")
        claim = await app.claim()
        assert claim is not None

        async def work() -> None:
            async with claim:
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await app.claim() is not None
        generator = work()
        with pytest.raises(dibs.WrongState):
            await generator
