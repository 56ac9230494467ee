"""How fast queues are worked off, as several processes tell it. What one tells is in the broker suite."""

import asyncio

from dibs.broker.local import LocalBroker
from dibs.broker.rates import RATES, STEP, Meter
from dibs.clock import FakeClock
from dibs.domain.settings import Config
from dibs.stores.memory import MemoryStore
from dibs.testing.conformance.broker.maintain import maintained
from dibs.testing.conformance.broker.verbs import claim, enqueue_some, eventually


async def test_what_processes_claim_is_added_up_and_one_that_was_killed_is_soon_forgotten() -> None:
    clock = FakeClock()
    store = MemoryStore(clock)
    one, two = (LocalBroker(store, clock, Config.of()) for _ in range(2))
    await enqueue_some(one, 9, queue="q")

    async def rate() -> int:
        [info] = await one.queues()
        return info.claimed_per_minute

    async with maintained(one):
        async with maintained(two):
            await claim(one, limit=2)
            await claim(two, limit=5)

            async def both() -> bool:
                return await rate() == 7

            await eventually(both, clock, 1)
        began = clock.now()

        async def first_alone() -> bool:
            return await rate() == 2

        await eventually(first_alone, clock, 1)
        assert clock.now() - began <= 3 * STEP * 1_000_000
        assert len(await store.documents(RATES)) == 1


async def test_the_loops_of_one_process_tell_as_one() -> None:
    clock = FakeClock()
    store, meter = MemoryStore(clock), Meter(clock)
    one, two = (LocalBroker(store, clock, Config.of(), meter) for _ in range(2))
    await enqueue_some(one, 5, queue="q")
    async with maintained(one), maintained(two):
        await claim(one, limit=2)
        await claim(two, limit=1)

        async def told() -> bool:
            [info] = await one.queues()
            return info.claimed_per_minute == 3

        await eventually(told, clock, 1)


async def test_who_claims_nothing_writes_nothing() -> None:
    clock = FakeClock()
    store = MemoryStore(clock)
    broker = LocalBroker(store, clock, Config.of())
    async with maintained(broker):
        for _ in range(60):
            clock.advance(1)
            await asyncio.sleep(0)
    assert await store.documents("") == []
    assert await store.read(RATES) is None
