"""Two sessions take the same rows in opposite orders, verb against verb: no deadlock is told of, and none happens.

The rows are taken with SKIP LOCKED or in one order, so there is nothing to retry; the server's own count says so.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import combinations_with_replacement

import asyncpg
import pytest

from dibs.clock import Clock
from dibs.domain import transitions
from dibs.domain.job import Extension, Job, Order
from dibs.stores.postgres import PostgresStore
from dibs.testing.conformance.builders import claim, enqueue, new_jobs

ROWS, ROUNDS = 60, 12
DEADLOCKS = "SELECT pg_stat_clear_snapshot(), deadlocks FROM pg_stat_database WHERE datname = current_database()"

Verb = Callable[[PostgresStore, Sequence[Job], bool], Awaitable[int]]


async def take(store: PostgresStore, jobs: Sequence[Job], back: bool) -> int:
    order = Order.CREATED_AT_DESC if back else Order.CREATED_AT
    return len(await claim(store, limit=ROWS, queues=(jobs[0].queue,), order=order))


async def settle(store: PostgresStore, jobs: Sequence[Job], back: bool) -> int:
    written = await store.write([transitions.release(job.ref) for job in jobs])
    return sum(answer.outcome == "applied" for answer in written)


async def extend(store: PostgresStore, jobs: Sequence[Job], back: bool) -> int:
    return sum(outcome == "applied" for outcome in await store.extend([Extension(job.ref) for job in jobs]))


async def reap(store: PostgresStore, jobs: Sequence[Job], back: bool) -> int:
    written = await store.write([transitions.expire(job, Clock().random) for job in jobs])
    return sum(answer.outcome == "applied" for answer in written)


VERBS: list[Verb] = [take, settle, extend, reap]


@pytest.fixture
async def stores(url: str) -> AsyncIterator[list[PostgresStore]]:
    stores = [PostgresStore(url, Clock()) for _ in range(2)]
    yield stores
    for store in stores:
        await store.close()


@pytest.mark.parametrize(
    ("one", "other"), list(combinations_with_replacement(VERBS, 2)), ids=lambda verb: verb.__name__
)
async def test_opposite_orders(stores: list[PostgresStore], own: asyncpg.Connection, one: Verb, other: Verb) -> None:
    forth, back = stores
    before = (await own.fetchrow(DEADLOCKS))["deadlocks"]
    done = 0
    for number in range(ROUNDS):
        queue = f"round-{number}"
        await enqueue(forth, *new_jobs(ROWS, queue=queue))
        held = await claim(forth, limit=ROWS, lease=0.001, queues=(queue,))
        await forth.write([transitions.release(job.ref) for job in held[::3]])  # some are there to be claimed
        done += sum(await asyncio.gather(one(forth, held, False), other(back, held[::-1], True)))
    assert done > ROWS
    assert (await own.fetchrow(DEADLOCKS))["deadlocks"] == before
