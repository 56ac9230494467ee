"""A network that cuts, falls silent, or loses the answer to a script: told in time, and nothing is done twice."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import pytest

import dibs
from dibs.clock import Clock
from dibs.domain.errors import StoreUnavailable
from dibs.domain.job import Outcome, Status
from dibs.stores.redis import RedisStore
from dibs.testing.conformance.builders import (
    claim,
    completed,
    enqueue,
    enqueue_and_claim,
    ids,
    new_job,
    one,
    read,
    settle,
)
from tests.servers.proxy import Proxy


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    with Proxy.of(url) as proxy:
        yield proxy


@pytest.fixture
async def far(url: str, proxy: Proxy) -> AsyncIterator[RedisStore]:
    store = RedisStore(f"{proxy.through(url)}?timeout=1", Clock())
    await store.open()
    yield store
    await store.close()


async def test_a_silent_server_is_given_up_and_asked_again(far: RedisStore, proxy: Proxy) -> None:
    job = await enqueue_and_claim(far, new_job())
    await asyncio.to_thread(proxy.silence)
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match="in time"):
        await settle(far, completed(job))
    assert 0.9 < time.monotonic() - began < 5
    await asyncio.to_thread(proxy.pass_on)

    assert await settle(far, completed(job)) == [Outcome.APPLIED]


async def test_a_batch_on_its_way_gives_a_silent_server_up_too(url: str, proxy: Proxy) -> None:
    """Its task does not let itself be cancelled, so no time limit may depend on that."""
    async with dibs.App(f"{proxy.through(url)}?timeout=1") as app:
        await app.enqueue("t")
        await asyncio.to_thread(proxy.silence)
        with pytest.raises(StoreUnavailable, match="in time"):
            await asyncio.wait_for(app.enqueue("t"), 10)
        await asyncio.to_thread(proxy.pass_on)
        await app.enqueue("t")


async def test_a_server_that_does_not_answer_who_connects(url: str, proxy: Proxy) -> None:
    async with dibs.App(f"{proxy.through(url)}?timeout=1") as app:
        await app.enqueue("t")
        await asyncio.to_thread(proxy.silence)
        await asyncio.to_thread(proxy.reset)
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await asyncio.wait_for(app.claim(), 10)
        await asyncio.to_thread(proxy.pass_on)
        claimed = await app.claim()
        assert claimed is not None
        await claimed.complete()


async def test_one_call_notices_for_all_connections(far: RedisStore, proxy: Proxy) -> None:
    pool = far._sites.here().pool
    for link in [await pool.acquire() for _ in range(5)]:
        pool.release(link, None)
    assert proxy.connections >= 5
    await asyncio.to_thread(proxy.silence)
    await asyncio.to_thread(proxy.pass_on)
    with pytest.raises(StoreUnavailable, match="in time"):
        await claim(far)

    began = time.monotonic()
    assert await claim(far) == []
    assert time.monotonic() - began < 0.9


async def test_who_waits_hears_again_once_a_call_has_noticed(far: RedisStore, url: str, proxy: Proxy) -> None:
    """The listener's own connection is as dead as the others, and would be believed for longer."""
    other = RedisStore(url, Clock())
    waiting = asyncio.ensure_future(far.wait(one(), 30))
    await asyncio.sleep(0.5)  # it listens, has looked, and trusts in what it saw for five seconds
    await asyncio.to_thread(proxy.silence)
    await asyncio.to_thread(proxy.pass_on)
    with pytest.raises(StoreUnavailable, match="in time"):
        await claim(far)
    await enqueue(other, new_job())
    began = time.monotonic()
    await waiting
    assert time.monotonic() - began < 2.5
    await other.close()


async def test_every_connection_is_reset_and_work_goes_on(far: RedisStore, proxy: Proxy) -> None:
    job = await enqueue_and_claim(far, new_job())
    assert await proxy.reset_what_waits_in(far._sites.here().pool) >= 1

    assert await settle(far, completed(job)) == [Outcome.APPLIED]


@pytest.mark.parametrize("silently", [False, True])
async def test_a_script_whose_answer_is_lost_was_done_once(
    far: RedisStore, proxy: Proxy, real: RedisStore, silently: bool
) -> None:
    for id in ("a", "b"):  # now the server knows the scripts
        await enqueue(far, new_job(id))
    [held] = await claim(far, limit=1)
    await settle(far, completed(await enqueue_and_claim(far, new_job(queue="other"), queues=("other",))))

    await asyncio.to_thread(proxy.cut_after, b"EVALSHA", silently=silently)
    with pytest.raises(StoreUnavailable):
        await settle(far, completed(held, b"1"))
    assert await settle(far, completed(held, b"1")) == [Outcome.REPEATED]

    await asyncio.to_thread(proxy.cut_after, b"EVALSHA", silently=silently)
    with pytest.raises(StoreUnavailable):
        await claim(far, limit=1)
    job = await read(real, "b")
    assert (job.status, job.fence) == (Status.CLAIMED, 1), "leased, and told to no one: its lease will run out"

    await asyncio.to_thread(proxy.cut_after, b"EVALSHA", silently=silently)
    with pytest.raises(StoreUnavailable):
        await enqueue(far, new_job("c"))
    [again] = await enqueue(far, new_job("c"))
    assert again.was_duplicate
    assert ids(await claim(real)) == ["c"]
