"""A row that another transaction holds is asked for again, and nothing is told before it is known."""

from __future__ import annotations

import asyncio

import pytest

from dibs.broker.local import BUSY_TRIES, LocalBroker
from dibs.broker.protocol import Changes
from dibs.clock import FakeClock
from dibs.domain.errors import StoreUnavailable
from dibs.domain.job import Filter, Outcome
from dibs.domain.settings import Config
from dibs.testing.conformance.broker.verbs import (
    claim,
    claim_one,
    complete,
    enqueue_some,
    fail,
    ids,
    reap,
    settle,
    take,
)
from dibs.testing.conformance.builders import soon
from tests.broker.stores import BusyStore


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def busy(clock: FakeClock, times: int) -> tuple[BusyStore, LocalBroker]:
    store = BusyStore(clock, times)
    return store, LocalBroker(store, clock, Config.of())


@pytest.mark.parametrize("times", [1, 2, 7])
async def test_settle_asks_again_while_the_row_is_held(clock: FakeClock, times: int):
    store, broker = busy(clock, 0)
    job = await take(broker)
    store.busy = times

    assert await soon(asyncio.create_task(settle(broker, complete(job))), clock) == [Outcome.APPLIED]
    assert store.writes == [1] * (times + 1)


async def test_settle_asks_again_for_those_alone_that_were_held(clock: FakeClock):
    store, broker = busy(clock, 0)
    await enqueue_some(broker, 5)
    jobs = await claim(broker)
    store.busy = 3
    endings = [complete(jobs[0]), fail(jobs[1], delay=0), complete(jobs[2]), complete(jobs[3]), complete(jobs[3])]

    outcomes = await soon(asyncio.create_task(settle(broker, *endings)), clock)

    assert outcomes == ["applied", "applied", "applied", "applied", "repeated"]
    assert store.writes == [5, 3]


async def test_settle_gives_up_after_about_ten_seconds(clock: FakeClock):
    store, broker = busy(clock, 0)
    job = await take(broker)
    store.busy = 10**9
    began = clock.now()
    settling = asyncio.create_task(settle(broker, complete(job)))
    while not settling.done():
        clock.advance(0.2)
        for _ in range(10):
            await asyncio.sleep(0)

    with pytest.raises(StoreUnavailable) as raised:
        settling.result()
    assert "transaction" in raised.value.hint
    assert len(store.writes) == BUSY_TRIES + 1
    assert 8_000_000 <= clock.now() - began <= 20_000_000
    store.busy = 0
    assert await settle(broker, complete(job)) == [Outcome.APPLIED]  # nothing was half done


async def test_operators_ask_again_too(clock: FakeClock):
    store, broker = busy(clock, 0)
    await enqueue_some(broker, 3)
    held = await claim(broker)
    store.busy = 2
    assert await soon(asyncio.create_task(broker.cancel(ids(held))), clock) == Changes(matched=3, changed=3)
    store.busy = 2
    redriving = asyncio.create_task(broker.redrive([], where=Filter(status="cancelled")))
    assert await soon(redriving, clock) == Changes(matched=3, changed=3)


async def test_reaping_passes_by_what_is_held(clock: FakeClock):
    store, broker = busy(clock, 0)
    await enqueue_some(broker, 3)
    await claim(broker, lease=10)
    clock.advance(10)
    store.busy = 2

    await reap(broker)
    assert (await broker.counts()).claimed == 2
    await reap(broker)
    assert (await broker.counts()).claimed == 0


async def test_claim_goes_on_where_nothing_could_be_reaped(clock: FakeClock):
    store, broker = busy(clock, 0)
    job = await take(broker, claim_lease=10)
    clock.advance(10)
    store.busy = 1

    assert await claim(broker) == []
    clock.advance(60)
    assert await claim(broker) == []  # reaped now, and backs off
    clock.advance(60)
    assert (await claim_one(broker)).id == job.id
