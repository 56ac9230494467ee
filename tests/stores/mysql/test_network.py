"""A network that cuts, falls silent, or loses the answer to a commit: told in time, and nothing is done twice."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import pytest

import dibs
from dibs.clock import Clock
from dibs.domain.errors import StoreUnavailable
from dibs.domain.job import Outcome, Status
from dibs.stores.mysql import MysqlStore
from dibs.testing.conformance.builders import (
    claim,
    claim_one,
    completed,
    enqueue,
    enqueue_and_claim,
    ids,
    new_job,
    read,
    settle,
)
from tests.servers.proxy import Proxy


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    with Proxy.of(url) as proxy:
        yield proxy


@pytest.fixture
async def far(url: str, proxy: Proxy) -> AsyncIterator[MysqlStore]:
    store = MysqlStore(f"{proxy.through(url)}?timeout=1", Clock())
    await store.open()
    yield store
    await store.close()


async def test_a_silent_server_is_given_up_and_asked_again(far: MysqlStore, proxy: Proxy) -> None:
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


async def test_every_connection_is_reset_and_work_goes_on(far: MysqlStore, proxy: Proxy) -> None:
    job = await enqueue_and_claim(far, new_job())
    assert await asyncio.to_thread(proxy.reset) >= 1

    assert await settle(far, completed(job)) == [Outcome.APPLIED]


@pytest.mark.parametrize("silently", [False, True])
async def test_a_commit_whose_answer_is_lost_happened_once(
    far: MysqlStore, proxy: Proxy, real: MysqlStore, silently: bool
) -> None:
    [_, first] = await enqueue(far, new_job("a"), new_job("b"))
    held = await claim(far, limit=1)
    await asyncio.to_thread(proxy.cut_after, b";\nCOMMIT", silently=silently)
    with pytest.raises(StoreUnavailable):
        await settle(far, completed(held[0], b"1"))
    assert await settle(far, completed(held[0], b"1")) == [Outcome.REPEATED]

    await asyncio.to_thread(proxy.cut_after, b";\nCOMMIT", silently=silently)
    with pytest.raises(StoreUnavailable):
        await claim(far, limit=1)
    job = await read(real, first.id)
    assert (job.status, job.fence) == (Status.CLAIMED, 1), "leased, and told to no one: its lease will run out"

    await asyncio.to_thread(proxy.cut_after, b";\nCOMMIT", silently=silently)
    with pytest.raises(StoreUnavailable):
        await enqueue(far, new_job("c"))
    [again] = await enqueue(far, new_job("c"))
    assert again.was_duplicate
    assert ids(await claim(real)) == ["c"]


async def test_a_lease_is_late_by_the_time_that_was_asked_about(url: str, proxy: Proxy, real: MysqlStore) -> None:
    """Far away, "none is late for another second" was said half the way ago, and asked for all the way ago."""
    far = MysqlStore(proxy.through(url), Clock())
    await enqueue(far, new_job())
    job = await claim_one(real, lease=2)
    proxy.delay(0.6)
    assert await far.expired(10) == []
    proxy.pass_on()
    while await real.now() <= (job.lease_expires_us or 0):  # noqa: ASYNC110 - it is the server's clock
        await asyncio.sleep(0.02)

    assert ids(await far.expired(10)) == [job.id]
    await far.close()


async def test_a_short_lease_is_late_by_the_time_that_it_was_asked_for(url: str, proxy: Proxy) -> None:
    far = MysqlStore(proxy.through(url), Clock())
    await enqueue(far, new_job())
    assert await far.expired(10) == []
    proxy.delay(0.1)
    job = await claim_one(far, lease=0.2)  # it has run out before the answer is here
    proxy.pass_on()
    assert await far.now() > (job.lease_expires_us or 0)

    assert ids(await far.expired(10)) == [job.id]
    await far.close()
