"""A data centre in virtual time: real workers and their real broker code, on a server whose time is what it costs.

What is simulated is the server and the network: a call travels, waits for one of the server's processors, holds it for
as long as such a call was measured to take, waits for the disk where there is one, and travels back. What the call does
is done by the memory store. A worker has a processor of its own, which takes its time as well.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from heapq import heapreplace
from random import Random
from typing import Any, NamedTuple

import dibs
from bench.scaling.costs import Costs
from dibs.domain.job import ClaimRequest, Draft, Job
from dibs.domain.newjob import NewJob
from dibs.domain.transitions import Write
from dibs.store import Refusal, Written
from dibs.stores.memory import MemoryStore
from dibs.testing.sim.loop import SimClock, SimLoop

GROUP = 100
"""Jobs that a producer enqueues at once."""
PRODUCERS = 8
BACKLOG = 20_000
"""So many are unfinished when it begins, and producers rest while as many are."""
WARM, MEASURED = 0.2, 0.4
"""Virtual seconds until it counts, and for how long it does; with slow handlers, ten of them longer."""


class Place(NamedTuple):
    """A server, or several that share the work evenly, and how far away."""

    costs: Costs
    processors: int = 4  # of each server
    servers: int = 1
    trip: float = 0.0005  # seconds there and back
    disk: float = 0.0  # seconds until a commit is on the disk; many commits may wait for it together


class Crowd(NamedTuple):
    """Workers, and what they do."""

    workers: int
    concurrency: int = 100
    handler: float = 0.0  # seconds


class Processors:
    """Some that serve whoever came first."""

    def __init__(self, loop: SimLoop, number: int) -> None:
        self._loop, self._free_at = loop, [0.0] * number
        self.calls, self.busy = 0, 0.0  # how many are there now, and for how long any was served

    async def use(self, seconds: float) -> None:
        begins = max(self._loop.now, self._free_at[0])
        heapreplace(self._free_at, begins + seconds)
        self.busy += seconds
        self.calls += 1
        await asyncio.sleep(begins + seconds - self._loop.now)
        self.calls -= 1


class Tally:
    """What all of them have done so far."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop, self.enqueued, self.jobs, self.claims = loop, 0, 0, 0


class Far:
    """A store at the other end of a network."""

    def __init__(self, store: MemoryStore, place: Place, servers: list[Processors], tally: Tally, number: int) -> None:
        self._store, self._place, self._servers, self._tally = store, place, servers, tally
        self._own, self._luck = Processors(tally.loop, 1), Random(number)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def insert(self, groups: Sequence[Sequence[Draft]], *, connection: Any = None) -> list[list[Job] | Refusal]:
        answers = await self._store.insert(groups, connection=connection)
        await self._cost("enqueue", sum(map(len, groups)))
        return answers

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[list[Job]]:
        answers = await self._store.claim(requests)
        await self._cost("claim", number := sum(map(len, answers)))
        self._tally.claims += 1
        await self._own.use(self._place.costs.worker * number)
        return answers

    async def write(self, writes: Sequence[Write], *, connection: Any = None) -> list[Written]:
        await self._cost("complete", len(writes))
        return await self._store.write(writes, connection=connection)

    async def _cost(self, operation: str, jobs: int) -> None:
        costs, server = self._place.costs, self._luck.choice(self._servers)
        await self._own.use(costs.client[operation].of(jobs))
        await asyncio.sleep(self._place.trip)
        dearer = 1.0 if operation == "enqueue" else costs.crowded(server.calls + 1)
        await server.use(dearer * costs.server[operation].of(jobs))
        if jobs:
            await asyncio.sleep(self._place.disk)


class Found(NamedTuple):
    rate: float  # jobs a second
    busy: float  # the share of the server's processors that was
    claimed: float  # jobs that a claim got, on average


def simulate(place: Place, crowd: Crowd, backlog: int = BACKLOG) -> Found:
    """Let a crowd work on a backlog that is kept up, and say how many jobs end in a second."""
    loop, logger = SimLoop(), logging.getLogger("dibs")
    disabled, logger.disabled = logger.disabled, True
    try:
        return loop.run_until_complete(_run(loop, place, crowd, backlog))
    finally:
        logger.disabled = disabled
        asyncio.set_event_loop(None)
        loop.close()


async def _run(loop: SimLoop, place: Place, crowd: Crowd, backlog: int) -> Found:
    clock = SimClock(loop, Random(1))
    store, tally = MemoryStore(clock), Tally(loop)
    servers = [Processors(loop, place.processors) for _ in range(place.servers)]

    def app(number: int) -> dibs.App:
        made = dibs.App("memory://", clock=SimClock(loop, Random(number)), reap_every=3600, prune_every=3600)
        far = Far(store, place, servers, tally, number)
        made.runtime.open_store = lambda _url, _clock: far
        return made

    async def produce(number: int) -> None:
        mine = app(number)
        while True:
            if tally.enqueued - tally.jobs < backlog:
                tally.enqueued += GROUP
                await mine.enqueue_many([NewJob("noop", retention=0)] * GROUP)
            else:
                await asyncio.sleep(0.001)

    def work(number: int) -> dibs.Worker:
        mine, luck = app(PRODUCERS + number), Random(number)

        @mine.task
        async def noop() -> None:
            if crowd.handler:  # of different lengths, or all would be done at the same moment
                await asyncio.sleep(crowd.handler * luck.uniform(0.5, 1.5))
            tally.jobs += 1

        return dibs.Worker(mine, concurrency=crowd.concurrency, worker_id=f"w-{number}", lease=3600)

    filler = dibs.App("memory://", clock=clock)
    filler.runtime.open_store = lambda _url, _clock: store
    for _ in range(backlog // GROUP):
        tally.enqueued += GROUP
        await filler.enqueue_many([NewJob("noop", retention=0)] * GROUP)
    running = [loop.create_task(produce(number)) for number in range(PRODUCERS)]
    running += [loop.create_task(work(number).run()) for number in range(crowd.workers)]
    running.append(loop.create_task(_prune(store)))
    measured = MEASURED + 10 * crowd.handler
    await asyncio.sleep(WARM + 10 * crowd.handler)
    jobs, claims, busy = tally.jobs, tally.claims, sum(each.busy for each in servers)
    await asyncio.sleep(measured)
    jobs, claims, busy = tally.jobs - jobs, tally.claims - claims, sum(each.busy for each in servers) - busy
    for task in running:
        task.cancel()
    await asyncio.wait(running)
    share = busy / measured / (place.processors * place.servers)
    return Found(jobs / measured, min(share, 1.0), jobs / max(claims, 1))


async def _prune(store: MemoryStore) -> None:
    """Let what is done be forgotten, at no cost, so that a simulation takes no more memory than it must."""
    while True:
        await asyncio.sleep(0.1)
        await store.prune(100_000)
