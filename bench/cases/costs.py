"""What one operation costs a server: processor time, by the number of jobs in a call; and what many claimers add.

It is the server's own time that is measured, so it does not matter how many cores there are, nor how busy they are with
others. ``docs/explanation/scaling.md`` is made of these figures (``bench/scaling``).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple, Protocol

import dibs
from bench import mariadb, postgres, redis
from bench.places import Place
from bench.run import Broken, Run
from bench.subjects import GROUP, complete_all, draft, insert, opened_at, prove_once, request
from dibs.clock import Clock
from dibs.domain.job import Job
from dibs.store import Refusal, Store

CASE = "costs"
OPERATIONS = ("enqueue", "claim", "complete")
SIZES = {1: 1_500, 10: 600, 100: 150}
"""Jobs in a call, and how many calls are made."""
CLAIMERS = (1, 8, 32)
CLAIMED = 10
WORKER = "a worker's own, beside its calls"


class Server(Place, Protocol):
    """A server that tells how much it has worked."""

    def spent(self) -> float:
        """Give its processor time, in seconds."""


class Cost(NamedTuple):
    server: float  # microseconds of processor time a call
    client: float


@asynccontextmanager
async def servers(run: Run) -> AsyncIterator[list[Server]]:
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(postgres.serving(run)),
            await stack.enter_async_context(mariadb.serving()),
            await stack.enter_async_context(redis.serving(run)),
        ]


async def costs(run: Run) -> None:
    turns = run.size(5, 2)
    own = [await _worker(run) for _ in range(turns)]
    run.figure(CASE, "dibs worker", WORKER, "µs of the client a job", own)
    async with servers(run) as places:
        steps = turns * len(places) * (len(SIZES) + len(CLAIMERS))
        with run.view.step("what an operation costs", steps) as step:
            for place in places:
                for size in SIZES:
                    found = []
                    for _ in range(turns):
                        found.append(await _turn(run, place, size))
                        step.advance()
                    _tell(run, place, size, found)
                for claimers in CLAIMERS:
                    values = []
                    for _ in range(turns):
                        values.append(await _crowd(run, place, claimers))
                        step.advance()
                    what = f"claim by {CLAIMED} and complete, {claimers} at once"
                    run.figure(CASE, place.store, what, "µs of the server a job", values)


def _tell(run: Run, place: Place, size: int, found: list[dict[str, Cost]]) -> None:
    for operation in OPERATIONS:
        costs = [turn[operation] for turn in found]
        run.figure(CASE, place.store, f"{operation} by {size}", "µs of the server a call", [c.server for c in costs])
        run.figure(CASE, place.store, f"{operation} by {size}", "µs of the client a call", [c.client for c in costs])


async def _turn(run: Run, place: Server, size: int) -> dict[str, Cost]:
    calls, clock = run.size(SIZES[size], SIZES[size] // 5), Clock()
    groups = [[draft(clock) for _ in range(size)] for _ in range(calls)]
    claimed: list[list[Job]] = []
    async with place.database(migrated=True) as url, opened_at(url) as store:
        await insert(store, [draft(clock, "before") for _ in range(size)])  # connects, and prepares statements
        for jobs in await store.claim([request(size)]):
            await complete_all(store, jobs)

        async def enqueue(number: int) -> None:
            [answer] = await store.insert([groups[number]])
            if isinstance(answer, Refusal):
                raise Broken(f"a new job was refused: {answer}")

        async def claim(_: int) -> None:
            claimed.extend(await store.claim([request(size)]))

        async def complete(number: int) -> None:
            await complete_all(store, claimed[number])

        found = {
            "enqueue": await _measured(place, calls, enqueue),
            "claim": await _measured(place, calls, claim),
            "complete": await _measured(place, calls, complete),
        }
        prove_once(run, [job.id for jobs in claimed for job in jobs], calls * size)
    return found


async def _measured(place: Server, calls: int, call: Callable[[int], Awaitable[None]]) -> Cost:
    server, client = place.spent(), time.process_time()
    for number in range(calls):
        await call(number)
    return Cost(1e6 * (place.spent() - server) / calls, 1e6 * (time.process_time() - client) / calls)


async def _crowd(run: Run, place: Server, claimers: int) -> float:
    """Claim and complete the same queue from so many stores at once, each with connections of its own."""
    jobs, clock, claimed = run.size(6_000, 2_000), Clock(), list[str]()

    async def work(store: Store) -> None:
        while found := [job for jobs in await store.claim([request(CLAIMED)]) for job in jobs]:
            claimed.extend(job.id for job in found)
            await complete_all(store, found)

    async with place.database(migrated=True) as url, AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(opened_at(url)) for _ in range(claimers)]
        for store in stores:
            await store.claim([request(1)])  # connects
        await insert(stores[0], (draft(clock) for _ in range(jobs)))
        before = place.spent()
        await asyncio.gather(*map(work, stores))
        spent = place.spent() - before
        prove_once(run, claimed, jobs)
    return 1e6 * spent / jobs


async def _worker(run: Run) -> float:
    """Let a worker do nothing, again and again, on a store that costs next to nothing."""
    jobs, done = run.size(20_000, 4_000), list[int]()
    app = dibs.App("memory://")

    @app.task
    async def noop(number: int) -> None:
        done.append(number)

    async with app:
        for start in range(0, jobs, GROUP):
            await app.enqueue_many([dibs.NewJob("noop", {"number": start + each}) for each in range(GROUP)])
        before = time.process_time()
        await dibs.Worker(app, concurrency=100).run(until_idle=True)
        spent = time.process_time() - before
    if sorted(done) != list(range(jobs)):
        raise Broken(f"{jobs} jobs, of which {len(set(done))} were done, in {len(done)} runs")
    return 1e6 * spent / jobs
