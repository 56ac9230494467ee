"""What PostgreSQL's driver and pool make of a bad network, one call at a time."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import asyncpg
import pytest

import dibs
from dibs.clock import Clock
from dibs.domain import transitions
from dibs.domain.errors import InvalidRequest, StoreUnavailable
from dibs.domain.job import Extension, Outcome
from dibs.stores.postgres import PostgresStore, address
from dibs.stores.postgres.statements import statement
from dibs.testing.conformance.builders import (
    claim,
    claim_one,
    completed,
    enqueue,
    enqueue_and_claim,
    ids,
    new_job,
    new_jobs,
    settle,
)
from tests.servers.databases import empty_postgres
from tests.servers.proxy import Proxy

LIMIT = 1.0
"""Seconds that these stores let a server be silent."""
SLACK = 3.0
TURN = statement("document_lock")
LOCKED = """SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
  AND state = 'idle in transaction' AND query LIKE '%FOR UPDATE OF job SKIP LOCKED%')"""
CONNECTED = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'dibs'"


@pytest.fixture
def straight() -> str:
    return empty_postgres()


@pytest.fixture
def proxy(straight: str) -> Iterator[Proxy]:
    with Proxy.of(straight) as proxy:
        yield proxy


@pytest.fixture
def url(proxy: Proxy, straight: str) -> str:
    return f"{proxy.through(straight)}?timeout={LIMIT:g}"


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url, Clock())
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def other(straight: str) -> AsyncIterator[PostgresStore]:
    """A store on another line."""
    store = PostgresStore(straight, Clock())
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def own(straight: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(straight)
    yield connection
    await connection.close()


async def fails_within(call: Awaitable[Any], seconds: float) -> None:
    began = time.monotonic()
    with pytest.raises(StoreUnavailable):
        await call
    assert time.monotonic() - began < seconds


# Silence


async def test_a_server_that_falls_silent_is_noticed(store: PostgresStore, proxy: Proxy) -> None:
    job = await enqueue_and_claim(store, new_job())
    proxy.silence()
    await fails_within(settle(store, completed(job)), LIMIT + SLACK)
    proxy.pass_on()
    assert await settle(store, completed(job)) == [Outcome.APPLIED]


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


async def test_an_enqueue_of_several_statements_notices_as_soon(straight: str, proxy: Proxy) -> None:
    """It may wait long for another's transaction, but not for a server that says nothing."""
    store = PostgresStore(f"{proxy.through(straight)}?timeout={LIMIT:g}&pool=1", Clock())
    for id in ("a", "b"):
        await enqueue(store, new_job(id, tags=("t",)))  # now all its statements are prepared
    for nth in range(1, 4):
        proxy.cut_after(b"__asyncpg", silently=True)
        await fails_within(enqueue(store, new_job(f"c{nth}", tags=("t",))), 2 * LIMIT + SLACK)
        await enqueue(store, new_job(f"c{nth}", tags=("t",)))
    await store.close()


async def test_an_enqueue_waits_for_anothers_transaction_for_longer(
    store: PostgresStore, own: asyncpg.Connection
) -> None:
    transaction = own.transaction()
    await transaction.start()
    await store.insert([[new_job("a", unique_key="mine")]], connection=own)
    waiting = asyncio.ensure_future(enqueue(store, new_job("b", unique_key="mine")))
    await asyncio.sleep(2.5 * LIMIT)
    assert not waiting.done()
    await transaction.commit()
    [job] = await waiting
    assert (job.id, job.was_duplicate) == ("a", True)


async def test_one_call_notices_for_all_connections(store: PostgresStore, proxy: Proxy) -> None:
    await enqueue(store, *new_jobs(5))
    together = await asyncio.gather(*(store.now() for _ in range(5)))  # each on a connection
    assert len(together) == 5
    assert proxy.connections >= 5
    proxy.silence()
    proxy.pass_on()
    await fails_within(claim(store), LIMIT + SLACK)

    began = time.monotonic()
    assert len(await claim(store)) == 5
    assert time.monotonic() - began < LIMIT


async def test_a_transaction_whose_client_was_lost_is_ended_by_the_server(
    straight: str, proxy: Proxy, other: PostgresStore
) -> None:
    """Else the rows that it has locked would be no one's for hours."""
    store = PostgresStore(f"{proxy.through(straight)}?timeout={LIMIT:g}&pool=1", Clock())
    await enqueue(store, new_job("first"), new_job("second"))
    first, second = await claim(store, limit=2)
    await settle(store, transitions.release(first.ref))  # now all its statements are prepared, and have no text
    proxy.cut_after(b"__asyncpg", silently=True)  # the one that locks the row
    await fails_within(store.write([transitions.release(second.ref)]), LIMIT + SLACK)
    assert proxy.cuts == 1

    began = time.monotonic()
    while (await other.write([transitions.release(second.ref)]))[0].outcome is Outcome.BUSY:
        assert time.monotonic() - began < LIMIT + SLACK
    assert {job.id for job in await claim(other)} == {"first", "second"}
    await store.close()


async def test_a_caller_who_gives_up_does_not_wait_for_a_silent_server(store: PostgresStore, proxy: Proxy) -> None:
    await enqueue(store, *new_jobs(2))
    first, second = await claim(store)
    await settle(store, transitions.release(first.ref))  # now all its statements are prepared, and have no text
    proxy.cut_after(b"__asyncpg", silently=True)  # in the middle of a transaction
    running = asyncio.ensure_future(store.write([transitions.release(second.ref)]))
    while proxy.cuts == 0:  # noqa: ASYNC110 - it is another thread that counts
        await asyncio.sleep(0.01)
    began = time.monotonic()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert time.monotonic() - began < LIMIT / 2


async def test_the_kernel_looks_after_idle_connections(store: PostgresStore, straight: str) -> None:
    [connection] = store._sites.here().pool._free
    sock = connection._transport.get_extra_info("socket")
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10
    server = {
        name: await connection.fetchval(f"SHOW {name}") for name in ("tcp_keepalives_idle", "tcp_keepalives_count")
    }
    assert server == {"tcp_keepalives_idle": "10", "tcp_keepalives_count": "3"}


def test_the_limit_is_ten_seconds_unless_set() -> None:
    assert address.read("postgresql://h/d").timeout == 10.0
    assert address.read("postgresql://h/d?timeout=2.5").timeout == 2.5
    for wrong in ("0", "-1", "soon", "1e9", "nan"):
        with pytest.raises(InvalidRequest, match="timeout"):
            address.read(f"postgresql://h/d?timeout={wrong}")


# Committed, and no one was told


@pytest.mark.parametrize("silently", [False, True], ids=["reset", "silence"])
class TestCutAfterCommit:
    async def test_enqueue(self, store: PostgresStore, proxy: Proxy, *, silently: bool) -> None:
        await enqueue(store, new_job())
        proxy.cut_after(silently=silently)
        await fails_within(enqueue(store, new_job("a", idempotency_key="k")), LIMIT + SLACK)
        [again] = await enqueue(store, new_job("a", idempotency_key="k"))

        assert again.was_duplicate, "it had been committed"
        assert len(await claim(store)) == 2

    async def test_enqueue_in_a_transaction(self, store: PostgresStore, proxy: Proxy, *, silently: bool) -> None:
        await enqueue(store, new_job("a", idempotency_key="k"))
        proxy.cut_after(b"COMMIT", silently=silently)
        await fails_within(enqueue(store, new_job("b", tags=("t",))), LIMIT + SLACK)
        [again] = await enqueue(store, new_job("b", tags=("t",)))
        assert again.was_duplicate

    async def test_claim(self, store: PostgresStore, proxy: Proxy, *, silently: bool) -> None:
        await enqueue(store, new_job("a"), new_job("b"))
        assert (await claim_one(store)).id == "a"
        proxy.cut_after(silently=silently)
        await fails_within(claim(store, limit=1, lease=0.5), LIMIT + SLACK)

        assert await claim(store) == [], "it is leased, and is not handed out a second time"
        while not (late := await store.expired(10)):  # noqa: ASYNC110 - it is the server's clock that makes it true
            await asyncio.sleep(0.05)
        assert ids(late) == ["b"]
        await store.write([transitions.expire(job, Clock().random) for job in late])
        [log] = [[event.event for event in await store.log("b")]]
        assert log == ["enqueued", "claimed", "expired"]

    @pytest.mark.parametrize("verb", ["complete", "release"])
    async def test_settle(self, store: PostgresStore, proxy: Proxy, verb: str, *, silently: bool) -> None:
        write: Callable[[Any], Any] = completed if verb == "complete" else lambda job: transitions.release(job.ref)
        await settle(store, write(await enqueue_and_claim(store, new_job("a", task="first"))))  # prepares
        [job] = await enqueue_job(store, "b")
        proxy.cut_after(b"" if verb == "complete" else b"COMMIT", silently=silently)
        await fails_within(settle(store, write(job)), LIMIT + SLACK)
        assert await settle(store, write(job)) == [Outcome.REPEATED]

    async def test_extend(self, store: PostgresStore, proxy: Proxy, *, silently: bool) -> None:
        job = await enqueue_and_claim(store, new_job())
        await store.extend([Extension(job.ref)])
        proxy.cut_after(silently=silently)
        await fails_within(store.extend([Extension(job.ref)]), LIMIT + SLACK)
        assert await store.extend([Extension(job.ref)]) == [Outcome.APPLIED]
        assert await settle(store, completed(job)) == [Outcome.APPLIED]


async def enqueue_job(store: PostgresStore, id: str) -> list[Any]:
    await enqueue(store, new_job(id, task="second"))
    return await claim(store, tasks=("second",), limit=1)


async def test_connections_come_back_one_for_one(store: PostgresStore, proxy: Proxy, straight: str) -> None:
    """A pool that lost count would end up with none, or with more than it may have."""
    await enqueue(store, *new_jobs(50))
    for _ in range(10):
        await asyncio.gather(*(store.now() for _ in range(12)), return_exceptions=True)
        proxy.reset()
        await asyncio.gather(*(store.now() for _ in range(12)), return_exceptions=True)
    assert len(await asyncio.gather(*(store.now() for _ in range(30)))) == 30
    own = await asyncpg.connect(straight)
    async with asyncio.timeout(SLACK):  # what was reset leaves in a moment
        while await own.fetchval(CONNECTED) > 10:
            pass
    await own.close()


# Slowness


async def test_a_redrive_is_later_than_the_end_that_set_its_key_free(
    straight: str, proxy: Proxy, other: PostgresStore, own: asyncpg.Connection
) -> None:
    """Race: the key is taken when the redrive tells the time, and free when it looks for it."""
    slow = PostgresStore(f"{proxy.through(straight)}?pool=1", Clock())
    [first] = await enqueue(slow, new_job("first", unique_key="k"))
    await slow.write([transitions.cancel(first.id)])
    await slow.write([transitions.redrive(first.id)])  # now all its statements are prepared
    await slow.write([transitions.cancel(first.id)])
    second = await enqueue_and_claim(other, new_job("second", unique_key="k"))
    proxy.delay(0.15)
    redriving = asyncio.ensure_future(slow.write([transitions.redrive(first.id)]))
    async with asyncio.timeout(10):
        while not await own.fetchval(LOCKED):
            pass
    assert await settle(other, completed(second)) == [Outcome.APPLIED]
    [redriven] = await redriving
    proxy.pass_on()
    await slow.close()

    assert redriven.outcome is Outcome.APPLIED
    began, ended = (await other.log("first"))[-1], (await other.log("second"))[-1]
    assert (began.event, ended.event) == ("redriven", "completed")
    assert began.at_us >= ended.at_us


async def test_whoever_writes_a_document_waits_its_turn(store: PostgresStore, own: asyncpg.Connection) -> None:
    """Ten processes on a starved machine: each waits for the others, and none of them is silent."""
    await store.put("paused/q", b"1")
    async with own.transaction():
        await own.execute(TURN, "paused/q")
        waiting = asyncio.ensure_future(store.put("paused/q", b"2"))
        await asyncio.sleep(1.5 * LIMIT)
        assert not waiting.done()
    document = await waiting
    assert document is not None
    assert document.version == 2
