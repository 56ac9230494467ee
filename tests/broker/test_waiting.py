"""A claim that waits: how often it looks, and that it ends."""

from __future__ import annotations

import asyncio

import pytest

from dibs.broker.line import LONGEST_NAP
from dibs.broker.local import LocalBroker
from dibs.broker.protocol import Ask
from dibs.clock import FakeClock
from dibs.domain.job import ClaimRequest, Job
from dibs.domain.newjob import NewJob
from dibs.domain.retry import Backoff
from dibs.domain.settings import Config
from dibs.store import Rivals, alone
from dibs.stores.memory import MemoryStore
from dibs.testing.conformance.broker.verbs import claim, enqueue, take


class Hinting(MemoryStore):
    """Wakes everyone all the time, for nothing: a store where others are busy."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.looks: list[int] = []

    async def wait(self, request: ClaimRequest, timeout: float, rivals: Rivals = alone, /) -> None:
        await asyncio.sleep(0)

    async def claim(self, requests):
        self.looks.append(self._clock.now())
        return await super().claim(requests)


class Racing(FakeClock):
    """Time that passes by itself when someone waits for it."""

    def call_later(self, seconds, callback):
        called_off = super().call_later(seconds, callback)
        self.advance(seconds)
        return called_off


async def test_hints_that_come_to_nothing_do_not_become_a_loop():
    clock = Racing()
    store = Hinting(clock)
    broker = LocalBroker(store, clock, Config.of())
    began = clock.now()

    assert await claim(broker, wait=60) == []

    assert 60_000_000 <= clock.now() - began <= 60_100_000
    assert len(store.looks) <= 60 / LONGEST_NAP + 20


async def test_a_long_wait_among_hints_ends():
    """Twice as long each time, for an hour: no number may grow beyond what a float can hold."""
    clock = Racing()
    broker = LocalBroker(Hinting(clock), clock, Config.of())

    assert await claim(broker, wait=3600) == []


async def test_hints_do_not_keep_the_dead_from_being_reaped():
    clock = Racing()
    broker = LocalBroker(Hinting(clock), clock, Config.of())
    job = await take(broker, claim_lease=5, retry=Backoff(0, 0))
    began = clock.now()
    [again] = await claim(broker, "waiter", wait=60)

    assert (again.id, again.fence) == (job.id, 2)
    assert clock.now() - began <= 10_000_000


async def test_a_job_that_comes_among_hints_is_found_within_a_second():
    clock = FakeClock()
    broker = LocalBroker(Hinting(clock), clock, Config.of())
    claiming = asyncio.create_task(claim(broker, wait=3600))
    for _ in range(100):
        clock.advance(0.5)
        for _ in range(10):
            await asyncio.sleep(0)
    job = await enqueue(broker)
    clock.advance(LONGEST_NAP)
    [claimed] = await asyncio.wait_for(claiming, 5)

    assert claimed.id == job.id


@pytest.mark.parametrize("start", [0, 1, 3, 7, 123_457, 299_999, 333_333, 999_999])
@pytest.mark.parametrize("wait", [0.000001, 0.1, 0.3, 1.1, 2.7, 59.999999])
async def test_a_wait_ends_when_its_time_is_over_whatever_the_floats_say(start: int, wait: float):
    clock = FakeClock(start=1_800_000_000_000_000 + start)
    store = MemoryStore(clock)
    broker = LocalBroker(store, clock, Config.of(poll_every=3600))
    claiming = asyncio.create_task(claim(broker, wait=wait))
    for _ in range(20):
        await asyncio.sleep(0)
    clock.advance(wait)  # exactly

    assert await asyncio.wait_for(claiming, 5) == []


async def test_an_idle_wait_looks_once_a_poll():
    clock = Racing()
    calls: list[int] = []

    class Counting(MemoryStore):
        async def claim(self, requests) -> list[list[Job]]:
            calls.append(len(requests))
            return await super().claim(requests)

    broker = LocalBroker(Counting(clock), clock, Config.of(poll_every=2))

    assert await claim(broker, wait=60) == []
    assert 30 <= len(calls) <= 33


async def test_whoever_was_too_late_for_one_job_is_there_for_the_next():
    """Ten wait, and each job wakes them all: the nine that come too late must not sleep through a burst."""
    clock = FakeClock()
    broker = LocalBroker(MemoryStore(clock), clock, Config.of())
    got: list[str] = []

    async def worker(name: str) -> None:
        while len(got) < 20 or name not in got:  # in the burst, one job keeps a worker busy
            if await broker.claim(Ask(worker_id=name, wait=600)):
                got.append(name if len(got) >= 20 else "single")

    workers = [asyncio.create_task(worker(f"w{n}")) for n in range(10)]
    await turns()
    for _ in range(20):
        clock.advance(0.1)
        await enqueue(broker)
        await turns()
    assert len(got) == 20

    clock.advance(0.1)
    await broker.enqueue([NewJob("t") for _ in range(10)])
    await turns()  # and no time passes

    assert sorted(got[20:]) == [f"w{n}" for n in range(10)]
    for task in workers:
        task.cancel()
    await asyncio.gather(*workers, return_exceptions=True)


async def turns() -> None:
    """Let everyone do what can be done without time passing."""
    for _ in range(100):
        await asyncio.sleep(0)
