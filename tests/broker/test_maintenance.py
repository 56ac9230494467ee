"""Reaping and pruning: spread out, in steps, by many at once, and through outages."""

from __future__ import annotations

import asyncio
import logging

import pytest

from dibs.broker import maintenance
from dibs.broker.local import LocalBroker
from dibs.broker.maintenance import Maintenance
from dibs.clock import FakeClock
from dibs.domain.job import Status
from dibs.domain.settings import Config
from dibs.stores.memory import MemoryStore
from dibs.testing.conformance.broker.verbs import claim, complete, enqueue_some, events, read, take
from tests.broker.stores import FlakyStore


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


class LookedAt(MemoryStore):
    """Remembers when it was looked at, and how many were pruned at a time."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.looks: list[int] = []
        self.steps: list[int] = []

    async def expired(self, limit: int):
        self.looks.append(self._clock.now())
        return await super().expired(limit)

    async def prune(self, limit: int) -> int:
        self.steps.append(await super().prune(limit))
        return self.steps[-1]


class Littered(LookedAt):
    """Always has something more to be pruned."""

    async def prune(self, limit: int) -> int:
        return 1 + await super().prune(limit)


class LookedAtWhileThere(LookedAt, FlakyStore):
    """Does so unless it is down."""


async def let_pass(clock: FakeClock, seconds: float, step: float = 0.05) -> None:
    for _ in range(round(seconds / step)):
        clock.advance(step)
        for _ in range(6):
            await asyncio.sleep(0)


async def stop(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_it_looks_at_irregular_intervals_within_five_seconds(clock: FakeClock):
    store = LookedAt(clock)
    running = asyncio.create_task(Maintenance(store, clock, Config.of()).run())
    await let_pass(clock, 120)
    await stop(running)

    gaps = [(later - earlier) / 1e6 for earlier, later in zip(store.looks, store.looks[1:], strict=False)]
    assert len(gaps) >= 30
    assert all(1.5 <= gap <= 3.1 for gap in gaps)
    assert len({round(gap, 1) for gap in gaps}) >= 10


async def test_those_who_start_together_do_not_look_together(clock: FakeClock):
    store = LookedAt(clock)
    running = [asyncio.create_task(Maintenance(store, clock, Config.of()).run()) for _ in range(10)]
    await let_pass(clock, 3.5)
    await stop(*running)

    assert len(store.looks) >= 10
    assert len(set(store.looks)) >= 6


async def test_it_looks_as_often_as_it_was_set(clock: FakeClock):
    store = Littered(clock)
    running = asyncio.create_task(Maintenance(store, clock, Config.of(reap_every=0.5, prune_every=2)).run())
    await let_pass(clock, 20)
    await stop(running)

    assert 35 <= len(store.looks) <= 80
    assert 8 <= len(store.steps) <= 22


async def test_it_prunes_seldom_where_there_is_nothing_and_often_again_when_there_was(clock: FakeClock):
    store = LookedAt(clock)
    broker = LocalBroker(store, clock, Config.of())
    running = asyncio.create_task(Maintenance(store, clock, Config.of(reap_every=0.5, prune_every=1)).run())
    await let_pass(clock, 60)
    in_vain = len(store.steps)
    await enqueue_some(broker, 1, retention=1)
    await broker.settle([complete(job) for job in await claim(broker)])
    for _ in range(4 * (maintenance.SELDOM + 2)):
        await let_pass(clock, 0.25)
        if store.steps[-1]:
            break
    found = len(store.steps)
    await let_pass(clock, 2)
    await stop(running)

    assert in_vain <= 4 + 60 / maintenance.SELDOM * 2
    assert store.steps[in_vain:found][-1] == 1
    assert len(store.steps) > found


async def test_what_was_to_be_pruned_during_an_outage_is_not_as_soon_as_it_is_over(clock: FakeClock):
    """All of a thousand processes whose turn it was meanwhile would come at once."""
    store = LookedAtWhileThere(clock)
    running = [asyncio.create_task(Maintenance(store, clock, Config.of()).run()) for _ in range(20)]
    store.down = True
    await let_pass(clock, 60)
    store.down = False
    await let_pass(clock, 3.5)
    at_once = len(store.steps)
    await let_pass(clock, 30)
    await stop(*running)

    assert at_once <= 10
    assert len(store.steps) >= 20


async def test_many_reap_at_once_and_each_claim_is_reaped_once(clock: FakeClock):
    store = MemoryStore(clock)
    broker = LocalBroker(store, clock, Config.of())
    await enqueue_some(broker, 1000)
    held = await claim(broker, limit=1000, lease=10)
    clock.advance(10)

    reaped = await asyncio.gather(*(Maintenance(store, clock, Config.of()).reap() for _ in range(8)))

    assert sum(reaped) == 1000
    for job in held[::100]:
        assert await events(broker, job.id) == ["enqueued", "claimed", "expired"]


async def test_it_reaps_more_than_one_step(clock: FakeClock):
    store = MemoryStore(clock)
    broker = LocalBroker(store, clock, Config.of())
    for _ in range(2):
        await enqueue_some(broker, 1000)
    for _ in range(2):
        await claim(broker, limit=1000, lease=10)
    clock.advance(10)

    assert await Maintenance(store, clock, Config.of()).reap() == 2000
    assert await Maintenance(store, clock, Config.of()).reap() == 0


async def test_it_prunes_in_steps_with_a_pause_between(clock: FakeClock):
    store = LookedAt(clock)
    broker = LocalBroker(store, clock, Config.of())
    await enqueue_some(broker, 1000, retention=5)
    await enqueue_some(broker, 200, retention=5)
    for limit in (1000, 200):
        await broker.settle([complete(job) for job in await claim(broker, limit=limit)])
    clock.advance(5)
    pruning = asyncio.create_task(Maintenance(store, clock, Config.of()).prune())
    for _ in range(10):
        await asyncio.sleep(0)

    assert store.steps == [maintenance.PRUNE_STEP]  # it waits: others come in between
    assert not pruning.done()
    await let_pass(clock, 1)
    assert await pruning == 1200
    assert store.steps == [500, 500, 200]


async def test_it_goes_on_after_the_store_was_away(clock: FakeClock, caplog: pytest.LogCaptureFixture):
    store = FlakyStore(clock)
    broker = LocalBroker(store, clock, Config.of())
    job = await take(broker, claim_lease=10)
    store.down = True
    running = asyncio.create_task(broker.maintain())
    with caplog.at_level(logging.WARNING, "dibs"):
        await let_pass(clock, 60)
        assert store.refused >= 10
        assert not running.done()
        store.down = False
        await let_pass(clock, 5)

    assert (await read(broker, job.id)).status is Status.PENDING
    assert "tried again" in caplog.text
    assert "took over 1 claims" in caplog.text
    await stop(running)
    assert running.cancelled()


async def test_it_stops_when_it_is_told(clock: FakeClock):
    broker = LocalBroker(MemoryStore(clock), clock, Config.of())
    running = asyncio.create_task(broker.maintain())
    await let_pass(clock, 10)
    await stop(running)

    assert running.cancelled()
