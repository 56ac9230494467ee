"""Waking up: soon from another process, quietly while there is nothing to do."""

import asyncio
import subprocess
import sys
import time
from typing import Any

import asyncpg
import pytest

import dibs
from dibs.broker.local import LocalBroker
from dibs.broker.protocol import Ask
from dibs.clock import Clock
from dibs.domain.job import ClaimRequest
from dibs.domain.settings import Config
from dibs.stores.postgres import PostgresStore, address, reading
from dibs.stores.postgres.turn import Turn
from dibs.stores.postgres.wake import Listener
from dibs.testing.conformance.builders import enqueue, new_job, one

PRODUCER = "import dibs, sys; dibs.App(sys.argv[1]).sync.enqueue('t', id='from-elsewhere'); print('sent')"
KILL_LISTENERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' OR query = 'SELECT 1'"
)


async def test_a_job_from_another_process_wakes_who_waits(url: str) -> None:
    async with dibs.App(url, poll_every=30) as app:
        waiting = asyncio.ensure_future(app.claim(wait=30))
        await asyncio.sleep(0.2)
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", PRODUCER, url, stdout=subprocess.PIPE)
        claim = await waiting
        assert claim is not None
        assert claim.id == "from-elsewhere"
        await claim.complete()
        assert (await process.communicate())[0] == b"sent\n"


async def test_a_wake_up_takes_milliseconds(url: str) -> None:
    here, there = PostgresStore(url, Clock()), PostgresStore(url, Clock())
    await there.open()
    took = []
    for n in range(5):
        waiting = asyncio.ensure_future(here.wait(one(queues=(f"q{n}",)), 10))
        await asyncio.sleep(0.15)
        began = time.perf_counter()
        await enqueue(there, new_job(queue=f"q{n}"))
        await waiting
        took.append(time.perf_counter() - began)

    assert sorted(took)[2] < 0.2
    await here.close()
    await there.close()


async def test_a_listener_that_is_cut_as_it_begins_to_listen_begins_anew(url: str, own: asyncpg.Connection) -> None:
    """Race: a call notices that the network was lost while the listener connects. What is left behind is closed."""
    listener = Listener(address.read(url), "dibs_test_wake", lambda _: None)
    for n in range(120):
        listening = asyncio.ensure_future(listener.listening())
        await asyncio.sleep(0.0002 * (n % 60))
        listener.terminate()
        assert not await listening
    assert not await listener.listening()  # it has connected just now
    assert await listener.listening()
    await listener.close()
    async with asyncio.timeout(20):
        left = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%dibs_test_wake%'"
        while await own.fetchval(left):  # noqa: ASYNC110 - the server rings no bell
            await asyncio.sleep(0.02)


async def test_a_listener_that_was_cut_listens_again(url: str, own: asyncpg.Connection) -> None:
    here, there = PostgresStore(url, Clock()), PostgresStore(url, Clock())
    await there.open()
    waiting = asyncio.ensure_future(here.wait(one(), 30))
    await asyncio.sleep(0.2)
    assert await own.fetchval(f"SELECT count(*) FROM ({KILL_LISTENERS}) AS killed") >= 1
    await asyncio.sleep(1.3)  # it is seen to once a second
    began = time.perf_counter()
    await enqueue(there, new_job())
    await waiting

    assert time.perf_counter() - began < 0.5
    await here.close()
    await there.close()


async def test_without_a_listener_one_looks_once_a_second(url: str) -> None:
    here, there = PostgresStore(f"{url}?listen=no", Clock()), PostgresStore(url, Clock())
    waiting = asyncio.ensure_future(here.wait(one(), 30))
    await asyncio.sleep(0.1)
    await enqueue(there, new_job())
    await asyncio.wait_for(waiting, 3)
    await here.close()
    await there.close()


@pytest.mark.parametrize(("number", "looks"), [(1, 3), (100, 1)])
async def test_without_a_listener_a_crowd_looks_in_turn(
    url: str, monkeypatch: pytest.MonkeyPatch, number: int, looks: int
) -> None:
    store = PostgresStore(f"{url}?listen=no", Clock())
    await store.open()
    asked, peek = list[ClaimRequest](), reading.peek

    async def counted(turn: Turn, request: ClaimRequest, places: Any) -> tuple[int, int]:
        asked.append(request)
        return await peek(turn, request, places)

    async def rivals() -> float:
        return number

    monkeypatch.setattr(reading, "peek", counted)
    await store.wait(one(), 2.7, rivals)
    assert looks <= len(asked) <= looks + 1
    await store.close()


@pytest.mark.slow
async def test_fifty_idle_workers_make_few_queries(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    fetch = asyncpg.Connection.fetch

    async def count(self: asyncpg.Connection, *args: object, **kwargs: object) -> object:
        nonlocal asked
        asked += 1
        return await fetch(self, *args, **kwargs)

    monkeypatch.setattr(asyncpg.Connection, "fetch", count)
    clock = Clock()
    stores = [PostgresStore(f"{url}?pool=2", clock) for _ in range(5)]
    workers = [LocalBroker(store, clock, Config.of()) for store in stores for _ in range(10)]
    waiting = [asyncio.ensure_future(broker.claim(Ask(worker_id="w", wait=60))) for broker in workers]
    await asyncio.sleep(2)
    asked = 0
    await asyncio.sleep(4)

    assert asked / 4 < 100
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    for store in stores:
        await store.close()
