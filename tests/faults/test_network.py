"""What a store's driver and pool make of a bad network, one call at a time."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

import dibs
from dibs.clock import Clock
from dibs.domain import transitions
from dibs.domain.errors import StoreUnavailable
from dibs.domain.job import Extension, Outcome, Status
from dibs.stores.common.pool import Pool
from dibs.testing.conformance.builders import (
    claim,
    claim_one,
    completed,
    enqueue,
    enqueue_and_claim,
    ids,
    new_job,
    new_jobs,
    one,
    read,
    settle,
)
from tests.servers.proxy import Proxy
from tests.stores.servers.kinds import KINDS, Kind, Own, ServerStore

LIMIT = 1.0
"""Seconds that these stores let a server be silent."""
SLACK = 3.0


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
def straight(kind: Kind) -> str:
    return kind.empty()


@pytest.fixture
def proxy(straight: str) -> Iterator[Proxy]:
    with Proxy.of(straight) as proxy:
        yield proxy


@pytest.fixture
def url(proxy: Proxy, straight: str) -> str:
    return f"{proxy.through(straight)}?timeout={LIMIT:g}"


@pytest.fixture
async def store(kind: Kind, url: str) -> AsyncIterator[ServerStore]:
    store = kind.store(url, Clock())
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def other(kind: Kind, straight: str) -> AsyncIterator[ServerStore]:
    """A store on another line."""
    store = kind.store(straight, Clock())
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def own(kind: Kind, straight: str) -> AsyncIterator[Own]:
    own = await kind.connected(straight)
    yield own
    await own.close()


async def fails_within(call: Awaitable[Any], seconds: float) -> None:
    began = time.monotonic()
    with pytest.raises(StoreUnavailable):
        await call
    assert time.monotonic() - began < seconds


# Silence


async def test_a_server_that_falls_silent_is_noticed(store: ServerStore, proxy: Proxy) -> None:
    job = await enqueue_and_claim(store, new_job())
    proxy.silence()
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match="in time"):
        await settle(store, completed(job))
    assert 0.9 * LIMIT < time.monotonic() - began < LIMIT + SLACK
    proxy.pass_on()
    assert await settle(store, completed(job)) == [Outcome.APPLIED]


async def test_a_batch_on_its_way_gives_a_silent_server_up_too(url: str, proxy: Proxy) -> None:
    """Its task does not let itself be cancelled, so no time limit may depend on that."""
    async with dibs.App(url) as app:
        await app.enqueue("t")
        proxy.silence()
        with pytest.raises(StoreUnavailable, match="in time"):
            await asyncio.wait_for(app.enqueue("t"), LIMIT + SLACK)
        proxy.pass_on()
        await app.enqueue("t")


async def test_a_server_that_does_not_answer_who_connects(url: str, proxy: Proxy) -> None:
    """Through an app: its calls run in a task that cannot be cancelled, and most time limits work by cancelling."""
    async with dibs.App(url) as app:
        await app.enqueue("t")
        proxy.silence()
        proxy.reset()
        await fails_within(app.claim(), LIMIT + SLACK)
        await fails_within(app.enqueue("t"), LIMIT + SLACK)
        proxy.pass_on()
        claimed = await app.claim()
        assert claimed is not None
        await claimed.complete()


async def test_an_enqueue_of_several_statements_notices_as_soon(kind: Kind, url: str, proxy: Proxy) -> None:
    """It may wait long for another's transaction, but not for a server that says nothing."""
    store = kind.store(f"{url}&pool=1", Clock())
    for id in ("a", "b"):
        await enqueue(store, new_job(id, tags=("t",)))  # now all its statements are prepared
    for nth, pattern in enumerate((kind.begins, kind.begins, kind.begins, kind.commits)):
        await asyncio.sleep(0.1)  # else it is the hint of the last enqueue, sent a moment later, that is cut
        proxy.cut_after(pattern, silently=True)
        await fails_within(enqueue(store, new_job(f"c{nth}", tags=("t",))), 2 * LIMIT + SLACK)
        assert proxy.cuts == nth + 1
        await enqueue(store, new_job(f"c{nth}", tags=("t",)))
    await store.close()


async def test_an_enqueue_waits_for_anothers_transaction_for_longer(store: ServerStore, own: Own) -> None:
    await own.begin()
    await store.insert([[new_job("a", unique_key="mine")]], connection=own.connection)
    waiting = asyncio.ensure_future(enqueue(store, new_job("b", unique_key="mine")))
    await asyncio.sleep(2.5 * LIMIT)
    assert not waiting.done()
    await own.commit()
    [job] = await waiting
    assert (job.id, job.was_duplicate) == ("a", True)


async def test_one_call_notices_for_all_connections(store: ServerStore, proxy: Proxy) -> None:
    await enqueue(store, *new_jobs(5))
    pool: Pool[Any] = store._sites.here().pool
    for link in [await pool.acquire() for _ in range(5)]:
        pool.release(link, None)
    assert proxy.connections >= 5
    proxy.silence()
    proxy.pass_on()
    await fails_within(claim(store), LIMIT + SLACK)

    began = time.monotonic()
    assert len(await claim(store)) == 5
    assert time.monotonic() - began < LIMIT


async def test_who_waits_hears_again_once_a_call_has_noticed(
    kind: Kind, store: ServerStore, other: ServerStore, proxy: Proxy
) -> None:
    """The listener's own connection is as dead as the others, and would be believed for longer."""
    waiting = asyncio.ensure_future(store.wait(one(), 30))
    await asyncio.sleep(0.5)  # it listens, has looked, and trusts in what it saw for five seconds
    proxy.silence()
    proxy.pass_on()
    if kind.name == "mysql":  # who waits there looks again and again, and may be the one who notices
        with suppress(StoreUnavailable):
            await claim(store)
    else:
        await fails_within(claim(store), LIMIT + SLACK)
    await enqueue(other, new_job())
    began = time.monotonic()
    await waiting
    assert time.monotonic() - began < 2.5


async def test_a_transaction_whose_client_was_lost_is_ended_by_the_server(
    kind: Kind, url: str, proxy: Proxy, other: ServerStore
) -> None:
    """Else the rows that it has locked would be no one's for hours."""
    store = kind.store(f"{url}&pool=1", Clock())
    await enqueue(store, new_job("first"), new_job("second"))
    first, second = await claim(store, limit=2)
    await settle(store, transitions.release(first.ref))  # now all its statements are prepared, and have no text
    proxy.cut_after(kind.begins, silently=True)  # the one that locks the row
    await fails_within(store.write([transitions.release(second.ref)]), LIMIT + SLACK)
    assert proxy.cuts == 1

    began = time.monotonic()
    while (await other.write([transitions.release(second.ref)]))[0].outcome is Outcome.BUSY:
        assert time.monotonic() - began < LIMIT + SLACK
    assert {job.id for job in await claim(other)} == {"first", "second"}
    await store.close()


async def test_a_caller_who_gives_up_does_not_wait_for_a_silent_server(
    kind: Kind, store: ServerStore, proxy: Proxy
) -> None:
    await enqueue(store, *new_jobs(2))
    first, second = await claim(store)
    await settle(store, transitions.release(first.ref))  # now all its statements are prepared, and have no text
    proxy.cut_after(kind.begins, silently=True)  # in the middle of a transaction
    running = asyncio.ensure_future(store.write([transitions.release(second.ref)]))
    while proxy.cuts == 0:  # noqa: ASYNC110 - it is another thread that counts
        await asyncio.sleep(0.01)
    began = time.monotonic()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert time.monotonic() - began < LIMIT / 2


async def test_every_connection_is_reset_and_work_goes_on(store: ServerStore, proxy: Proxy) -> None:
    job = await enqueue_and_claim(store, new_job())
    assert await proxy.reset_what_waits_in(store._sites.here().pool) >= 1

    assert await settle(store, completed(job)) == [Outcome.APPLIED]


# Committed, and no one was told


@pytest.mark.parametrize("silently", [False, True], ids=["reset", "silence"])
class TestCutAfterCommit:
    async def test_enqueue(self, kind: Kind, store: ServerStore, proxy: Proxy, *, silently: bool) -> None:
        await enqueue(store, new_job())
        proxy.cut_after(kind.commits_one, silently=silently)
        await fails_within(enqueue(store, new_job("a", idempotency_key="k")), LIMIT + SLACK)
        [again] = await enqueue(store, new_job("a", idempotency_key="k"))

        assert again.was_duplicate, "it had been committed"
        assert len(await claim(store)) == 2

    async def test_enqueue_in_a_transaction(
        self, kind: Kind, store: ServerStore, proxy: Proxy, *, silently: bool
    ) -> None:
        await enqueue(store, new_job("a", idempotency_key="k"))
        proxy.cut_after(kind.commits, silently=silently)
        await fails_within(enqueue(store, new_job("b", tags=("t",))), LIMIT + SLACK)
        [again] = await enqueue(store, new_job("b", tags=("t",)))
        assert again.was_duplicate

    async def test_claim(
        self, kind: Kind, store: ServerStore, other: ServerStore, proxy: Proxy, *, silently: bool
    ) -> None:
        await enqueue(store, new_job("a"), new_job("b"))
        assert (await claim_one(store)).id == "a"
        proxy.cut_after(kind.commits_one, silently=silently)
        await fails_within(claim(store, limit=1, lease=0.5), LIMIT + SLACK)

        job = await read(other, "b")
        assert (job.status, job.fence) == (Status.CLAIMED, 1), "leased, and told to no one: its lease will run out"
        assert await claim(store) == [], "it is leased, and is not handed out a second time"
        while not (late := await store.expired(10)):  # noqa: ASYNC110 - it is the server's clock that makes it true
            await asyncio.sleep(0.05)
        assert ids(late) == ["b"]
        await store.write([transitions.expire(job, Clock().random) for job in late])
        [log] = [[event.event for event in await store.log("b")]]
        assert log == ["enqueued", "claimed", "expired"]

    @pytest.mark.parametrize("verb", ["complete", "release"])
    async def test_settle(self, kind: Kind, store: ServerStore, proxy: Proxy, verb: str, *, silently: bool) -> None:
        write: Callable[[Any], Any] = completed if verb == "complete" else lambda job: transitions.release(job.ref)
        # Both at once: a hint that is sent a moment later would be what is cut.
        await enqueue(store, new_job("a", task="first"), new_job("b", task="second"))
        [first] = await claim(store, tasks=("first",), limit=1)
        await settle(store, write(first))  # prepares
        [job] = await claim(store, tasks=("second",), limit=1)
        proxy.cut_after(kind.commits_one if verb == "complete" else kind.commits, silently=silently)
        await fails_within(settle(store, write(job)), LIMIT + SLACK)
        assert await settle(store, write(job)) == [Outcome.REPEATED]

    async def test_extend(self, kind: Kind, store: ServerStore, proxy: Proxy, *, silently: bool) -> None:
        job = await enqueue_and_claim(store, new_job())
        await store.extend([Extension(job.ref)])
        proxy.cut_after(kind.commits_one, silently=silently)
        await fails_within(store.extend([Extension(job.ref)]), LIMIT + SLACK)
        assert await store.extend([Extension(job.ref)]) == [Outcome.APPLIED]
        assert await settle(store, completed(job)) == [Outcome.APPLIED]


async def test_connections_come_back_one_for_one(kind: Kind, store: ServerStore, proxy: Proxy, own: Own) -> None:
    """A pool that lost count would end up with none, or with more than it may have."""
    strangers = len(await own.run(kind.ours)) - proxy.connections
    await enqueue(store, *new_jobs(50))
    for _ in range(10):
        await asyncio.gather(*(store.now() for _ in range(12)), return_exceptions=True)
        proxy.reset()
        await asyncio.gather(*(store.now() for _ in range(12)), return_exceptions=True)
    assert len(await asyncio.gather(*(store.now() for _ in range(30)))) == 30
    async with asyncio.timeout(SLACK):  # what was reset leaves in a moment
        while len(await own.run(kind.ours)) > 10 + strangers:
            pass


# Slowness


async def test_a_lease_is_late_by_the_time_that_was_asked_about(
    kind: Kind, straight: str, proxy: Proxy, other: ServerStore
) -> None:
    """Far away, "none is late for another second" was said half the way ago, and asked for all the way ago."""
    far = kind.store(proxy.through(straight), Clock())
    await enqueue(far, new_job())
    job = await claim_one(other, lease=2)
    proxy.delay(0.6)
    assert await far.expired(10) == []
    proxy.pass_on()
    while await other.now() <= (job.lease_expires_us or 0):  # noqa: ASYNC110 - it is the server's clock
        await asyncio.sleep(0.02)

    assert ids(await far.expired(10)) == [job.id]
    await far.close()


async def test_a_short_lease_is_late_by_the_time_that_it_was_asked_for(
    kind: Kind, straight: str, proxy: Proxy, other: ServerStore
) -> None:
    far = kind.store(proxy.through(straight), Clock())
    await enqueue(far, new_job())
    assert await far.expired(10) == []
    proxy.delay(0.2)
    job = await claim_one(far, lease=0.2)  # it has run out as the answer comes, or soon after
    proxy.pass_on()
    while await other.now() <= (job.lease_expires_us or 0):  # noqa: ASYNC110 - it is the server's clock
        await asyncio.sleep(0.002)

    assert ids(await far.expired(10)) == [job.id]
    await far.close()
