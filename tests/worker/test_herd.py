"""Many workers, each a client of its own: what they ask of their server for a job, and after all have lost it at once.

The small form of ``./dev bench postgres-herd`` and its like, where there are a thousand.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import asyncpg
import pytest

from dibs import App
from dibs.broker.connect import open_store
from dibs.broker.crowd import IN_VAIN
from dibs.broker.protocol import BEAT_EVERY
from dibs.broker.roster import WORKERS as ROSTER
from dibs.clock import Clock, FakeClock
from dibs.domain.job import ClaimRequest, Job
from dibs.domain.settings import Config
from dibs.stores.postgres import PostgresStore
from dibs.worker.presence import Presence
from tests.servers import postgres
from tests.servers.databases import empty_redis
from tests.worker.conftest import until, working

WORKERS, JOBS, GAP = 40, 40, 0.05
POLL = Config.of().poll_every
KILL = """SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
  WHERE application_name = 'dibs' AND datname = current_database()"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A PostgreSQL that has connections enough for all."""
    with postgres.private({"max_connections": str(8 * WORKERS)}) as server:
        asyncio.run(PostgresStore(server.url, Clock()).migrate())
        yield server.url


@pytest.fixture(params=["postgresql", "redis"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "redis":
        return empty_redis()
    found: str = request.getfixturevalue("server")
    return found


class Counted:
    """A store that counts the claims that are asked of it, with those of its like."""

    claims = 0

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[list[Job]]:
        Counted.claims += len(requests)
        answers: list[list[Job]] = await self._store.claim(requests)
        return answers


def counted(url: str, clock: Clock) -> Any:
    return Counted(open_store(url, clock))


@asynccontextmanager
async def crowd(url: str, ran: list[int]) -> AsyncIterator[None]:
    """Workers that share nothing but their server and this process."""
    async with AsyncExitStack() as stack:
        for number in range(WORKERS):
            app = App(url)
            app.runtime.open_store = counted

            @app.task
            async def noop(number: int) -> None:
                ran.append(number)

            await stack.enter_async_context(app)
            await stack.enter_async_context(working(app, worker_id=f"w{number}"))
        async with App(url) as app:
            async with asyncio.timeout(30):
                while len(await app.workers()) < WORKERS:  # noqa: ASYNC110 - others say so to the store
                    await asyncio.sleep(0.1)
        yield


async def enqueue(app: App, numbers: range) -> None:
    for number in numbers:
        await app.enqueue("noop", {"number": number})
        await asyncio.sleep(GAP)


async def test_a_job_is_asked_for_by_few_of_many_workers(url: str) -> None:
    ran = list[int]()
    async with crowd(url, ran), App(url) as app:
        learnt = 5 * IN_VAIN
        await enqueue(app, range(learnt))
        before, began = Counted.claims, time.monotonic()
        await enqueue(app, range(learnt, learnt + JOBS))
        looks = WORKERS * ((time.monotonic() - began) / POLL + 1)  # which are made whether jobs come or not
        made = Counted.claims - before
        await until(lambda: len(ran) == learnt + JOBS)
    assert sorted(ran) == list(range(learnt + JOBS))
    assert (made - looks) / JOBS < WORKERS / 2


async def test_workers_that_lose_their_server_together_ask_no_more_than_before(server: str) -> None:
    ran, seconds = list[int](), 3 * POLL
    async with crowd(server, ran), App(server) as app:
        before = Counted.claims
        await asyncio.sleep(seconds)
        steady = Counted.claims - before
        own = await asyncpg.connect(server)
        assert await own.fetchval(KILL) >= 2 * WORKERS
        await own.close()
        await asyncio.sleep(2 * POLL)
        before = Counted.claims
        await asyncio.sleep(seconds)
        assert Counted.claims - before < 2 * steady
        await app.enqueue("noop", {"number": 1})
        await until(lambda: ran == [1])


async def test_workers_that_are_started_together_do_not_beat_together() -> None:
    clock = FakeClock()
    async with AsyncExitStack() as stack:
        apps = [await stack.enter_async_context(App("memory://", clock=clock)) for _ in range(20)]
        presences = [Presence(app.runtime, "w", {}) for app in apps]
        await until(lambda: clock.timers >= len(presences))  # all have beaten, and rest
        clock.advance(BEAT_EVERY / 2)

        async def again() -> int:
            documents = [await app.runtime.broker().documents(ROSTER) for app in apps]
            return sum(document.version > 1 for [document] in documents)

        async with asyncio.timeout(10):
            while not await again():  # noqa: ASYNC110 - likewise
                await asyncio.sleep(0.01)
        assert await again() < len(presences)
        for presence in presences:
            await presence.leave()
