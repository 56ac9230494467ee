"""What is PostgreSQL's own in a bad network: keepalive, prepared statements, the turns of documents."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from dibs.clock import Clock
from dibs.domain import transitions
from dibs.domain.errors import InvalidRequest, StoreUnavailable
from dibs.domain.job import Outcome
from dibs.stores.postgres import PostgresStore, address
from dibs.stores.postgres.statements import statement
from dibs.testing.conformance.builders import (
    completed,
    enqueue,
    enqueue_and_claim,
    failed,
    new_job,
    settle,
)
from tests.servers.databases import empty_postgres
from tests.servers.proxy import Proxy

LIMIT = 1.0
"""Seconds that these stores let a server be silent."""
TURN = statement("document_lock")
LOCKED = """SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
  AND state = 'idle in transaction' AND query LIKE '%FOR UPDATE SKIP LOCKED%')"""


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


async def test_a_hint_that_is_not_answered_costs_its_connection(store: PostgresStore, proxy: Proxy) -> None:
    """What was enqueued is there, and told to be; whoever comes next does not wait for an answer that never comes."""
    await enqueue(store, new_job("first"))  # now all its statements are prepared
    await asyncio.sleep(0.1)  # and the next hint is sent at once
    proxy.cut_after(store._sites.here().channel.encode(), silently=True)
    async with asyncio.timeout(10):
        await enqueue(store, new_job("second"))
        assert proxy.cuts == 1
        await enqueue(store, new_job("third"))
        assert [job.id for job in await store.get(["second", "third"]) if job] == ["second", "third"]


async def test_who_falls_silent_in_the_middle_of_a_statement_does_not_keep_its_rows(
    store: PostgresStore, other: PostgresStore, proxy: Proxy
) -> None:
    """A statement that was parsed, and never sent: to the server it is no idle transaction, but one at work."""
    job = await enqueue_and_claim(other, new_job("held"))
    proxy.cut_after(b"INSERT INTO dibs_event", silently=True)
    with pytest.raises(StoreUnavailable, match="in time"):
        await settle(store, failed(job))
    assert proxy.cuts == 1
    assert await settle(other, completed(job)) == [Outcome.BUSY]
    assert await settle(store, completed(job)) == [Outcome.APPLIED]


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
