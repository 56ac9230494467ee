"""Waking up: at once from this process, soon from another, quietly while there is nothing to do."""

import asyncio
import subprocess
import sys
import time
from typing import Any

import pytest
import redis

import dibs
from dibs.broker.local import LocalBroker
from dibs.broker.protocol import Ask
from dibs.clock import Clock
from dibs.domain.errors import StoreUnavailable
from dibs.domain.settings import Config
from dibs.stores.redis import RedisStore
from dibs.testing.conformance.builders import enqueue, new_job, one
from tests.servers import redis as server
from tests.servers.proxy import Proxy

PRODUCER = "import dibs, sys; dibs.App(sys.argv[1]).sync.enqueue('t', id='from-elsewhere'); print('sent')"


def listeners(own: redis.Redis) -> int:
    channel = f"dibs:{{0}}:news:{own.get_connection_kwargs().get('db', 0)}"
    return int(own.execute_command("PUBSUB", "SHARDNUMSUB", channel)[1])


async def until_listening(own: redis.Redis, number: int = 1) -> None:
    end = time.monotonic() + 10
    while listeners(own) != number:
        assert time.monotonic() < end, f"{listeners(own)} listen"
        await asyncio.sleep(0.01)


def asked(info: dict[str, Any]) -> int:
    """Say how many commands came from clients: those that ran inside scripts are not theirs."""
    names = ("evalsha", "eval", "ping", "ssubscribe", "spublish")
    return sum(info[f"cmdstat_{name}"]["calls"] for name in names if f"cmdstat_{name}" in info)


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


async def test_a_wake_up_takes_milliseconds(url: str, own: redis.Redis) -> None:
    here, there = RedisStore(url, Clock()), RedisStore(url, Clock())
    await there.open()
    took = []
    for n in range(5):
        waiting = asyncio.ensure_future(here.wait(one(queues=(f"q{n}",)), 10))
        await until_listening(own)
        await asyncio.sleep(0.05)  # since the last hint: what follows it at once is sent a moment later
        began = time.perf_counter()
        await enqueue(there, new_job(queue=f"q{n}"))
        await waiting
        took.append(time.perf_counter() - began)

    assert sorted(took)[2] < 0.2
    await here.close()
    await there.close()


async def test_what_follows_a_hint_at_once_is_told_too(url: str, own: redis.Redis) -> None:
    here, there = RedisStore(url, Clock()), RedisStore(url, Clock())
    waiting = [asyncio.ensure_future(here.wait(one(queues=(f"q{n}",)), 30)) for n in range(20)]
    await until_listening(own)
    began = time.perf_counter()
    for n in range(20):
        await enqueue(there, new_job(queue=f"q{n}"))
    await asyncio.gather(*waiting)

    assert time.perf_counter() - began < 2  # no one waited for the look of every five seconds
    await here.close()
    await there.close()


async def test_a_hint_is_not_sent_before_its_job_is_there(
    url: str, own: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Race: an enqueue that takes longer than hints are gathered for. Told too early, it is looked for in vain."""
    here, there = RedisStore(url, Clock()), RedisStore(url, Clock())
    await here.wait(one(), 10)  # until it listens
    await until_listening(own)
    site, run = there._sites.here(), there._sites.here().run

    async def slow(script: Any, *words: Any) -> Any:
        await asyncio.sleep(0.2 if script.name == "insert" else 0)
        return await run(script, *words)

    await enqueue(there, new_job(queue="first"))
    monkeypatch.setattr(site, "run", slow)
    waiting = asyncio.ensure_future(here.wait(one(queues=("second",)), 30))
    await asyncio.sleep(0.05)
    first = asyncio.ensure_future(enqueue(there, new_job(queue="other")))  # its hint goes along with it
    await asyncio.sleep(0.001)
    began = time.perf_counter()
    await enqueue(there, new_job(queue="second"))
    await waiting

    assert time.perf_counter() - began < 2
    assert await here.claim([one(queues=("second",))]) != [[]]
    await first
    await here.close()
    await there.close()


async def test_a_job_that_falls_due_is_waited_for_with_a_timer(url: str, own: redis.Redis) -> None:
    store = RedisStore(url, Clock())
    await store.wait(one(), 10)  # until it listens: then all who wait look once
    await until_listening(own)
    began = time.perf_counter()
    await enqueue(store, new_job(delay=0.4))
    await store.wait(one(), 30)

    assert 0.35 < time.perf_counter() - began < 2
    await store.close()


async def test_a_listener_that_was_killed_listens_again(url: str, own: redis.Redis) -> None:
    here, there = RedisStore(url, Clock()), RedisStore(url, Clock())
    await there.open()
    waiting = asyncio.ensure_future(here.wait(one(), 30))
    await until_listening(own)
    number = str(own.get_connection_kwargs()["db"])
    [listening] = [c for c in own.client_list() if c["ssub"] == "1" and c["db"] == number]
    own.client_kill_filter(_id=listening["id"])
    await enqueue(there, new_job())
    began = time.perf_counter()
    await waiting

    assert time.perf_counter() - began < 2
    await here.close()
    await there.close()


@pytest.mark.slow
async def test_a_listener_that_hears_nothing_any_more_is_noticed(url: str, own: redis.Redis) -> None:
    """Half open: its connection is dead, and no one says so. What connects anew is well."""
    with Proxy.of(url) as proxy:
        here, there = RedisStore(f"{proxy.through(url)}?timeout=1", Clock()), RedisStore(url, Clock())
        waiting = asyncio.ensure_future(here.wait(one(queues=("none",)), 60))
        await until_listening(own)
        await asyncio.to_thread(proxy.silence)
        await asyncio.to_thread(proxy.pass_on)
        await until_listening(own, 2)  # the server still believes in the first
        with pytest.raises(StoreUnavailable):  # the connections of the pool are as dead
            await here.now()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        waiting = asyncio.ensure_future(here.wait(one(), 60))
        await asyncio.sleep(0.2)
        began = time.perf_counter()
        await enqueue(there, new_job())
        await waiting
        assert time.perf_counter() - began < 1
        await here.close()
        await there.close()


async def test_without_a_listener_one_looks_once_a_second(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dibs.stores.redis.site.Site.listening", lambda _: False)
    here, there = RedisStore(url, Clock()), RedisStore(url, Clock())
    waiting = asyncio.ensure_future(here.wait(one(), 30))
    await asyncio.sleep(0.1)
    await enqueue(there, new_job())
    await asyncio.wait_for(waiting, 3)
    await here.close()
    await there.close()


@pytest.mark.slow
async def test_idle_workers_ask_seldom_and_one_connection_of_each_process_listens() -> None:
    clock = Clock()
    with server.private() as private:
        stores = [RedisStore(f"{private.url}?pool=2", clock) for _ in range(5)]
        workers = [LocalBroker(store, clock, Config.of()) for store in stores for _ in range(10)]
        waiting = [asyncio.ensure_future(broker.claim(Ask(worker_id="w", wait=60))) for broker in workers]
        with redis.Redis(port=private.port) as own:
            await until_listening(own, 5)
            await asyncio.sleep(1)
            own.config_resetstat()
            await asyncio.sleep(4)
            # Each broker claims once a second; all else is heard, not asked for.
            assert asked(own.info("commandstats")) / 4 < 100
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for store in stores:
            await store.close()


@pytest.mark.slow
async def test_ten_thousand_who_wait_do_not_poll() -> None:
    with server.private() as private, redis.Redis(port=private.port) as own:
        store = RedisStore(private.url, Clock())
        await store.wait(one(), 10)  # until it listens: then all who wait look once
        await until_listening(own)
        own.config_resetstat()
        waiting = [asyncio.ensure_future(store.wait(one(queues=(f"q{n % 100}",)), 60)) for n in range(10_000)]
        await asyncio.sleep(9)
        # A hundred wishes, each looked at once in five seconds; and a ping or two.
        assert not any(task.done() for task in waiting)
        assert asked(own.info("commandstats")) <= 210
        assert listeners(own) == 1
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await store.close()
