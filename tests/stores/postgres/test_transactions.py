"""``connection=``: enqueue and complete inside the user's own transaction, on asyncpg's connections and psycopg's."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import asyncpg
import psycopg
import pytest

from dibs.clock import FakeClock
from dibs.domain import transitions
from dibs.domain.errors import NotSupported
from dibs.domain.job import Extension, Outcome, Status
from dibs.store import Refusal
from dibs.stores.postgres import PostgresStore
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
    soon,
)


@pytest.fixture
async def waiting(url: str) -> AsyncIterator[psycopg.AsyncConnection]:
    connection = await psycopg.AsyncConnection.connect(url)
    yield connection
    await connection.close()


@pytest.fixture
def blocking(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url) as connection:
        yield connection


async def test_enqueue_commits_or_vanishes_with_the_user(store: PostgresStore, own: asyncpg.Connection) -> None:
    for end in ("rollback", "commit"):
        transaction = own.transaction()
        await transaction.start()
        await store.insert([[new_job(end, task=f"new {end}", tags=("t",))], new_jobs(2)], connection=own)
        assert await store.get([end]) == [None]
        await getattr(transaction, end)()

    assert await store.get(["rollback"]) == [None]
    assert len(await claim(store)) == 3
    assert [event.event for event in await store.log("commit")] == ["enqueued", "claimed"]


async def test_a_duplicate_and_a_refusal_leave_the_user_s_transaction_alive(
    store: PostgresStore, own: asyncpg.Connection
) -> None:
    await enqueue(store, new_job("a", idempotency_key="k"))
    async with own.transaction():
        first, second = await store.insert(
            [[new_job(idempotency_key="k")], [new_job("b"), new_job(idempotency_key="k", params=b"2")]], connection=own
        )
        assert not isinstance(first, Refusal)
        assert first[0].was_duplicate
        assert isinstance(second, Refusal)
        await own.execute("SELECT 1")

    assert await store.get(["b"]) == [None]


async def test_others_enqueue_into_a_lane_that_an_open_transaction_made(
    store: PostgresStore, own: asyncpg.Connection
) -> None:
    async with own.transaction():
        await store.insert([[new_job("mine", task="new")]], connection=own)
        await asyncio.wait_for(enqueue(store, new_job("yours", task="new")), 5)
        assert ids(await claim(store)) == ["yours"]
        await store.prune(10)  # leaves the lane that is in use

    assert ids(await claim(store)) == ["mine"]


async def test_complete_with_the_user(store: PostgresStore, own: asyncpg.Connection, clock: FakeClock) -> None:
    job = await enqueue_and_claim(store, new_job("a"), lease=1)
    transaction = own.transaction()
    await transaction.start()
    [written] = await store.write([completed(job)], connection=own)
    assert written == (Outcome.APPLIED, Status.COMPLETED)
    clock.advance(2)
    assert await store.extend([Extension(job.ref)]) == [Outcome.BUSY]
    [late] = await store.expired(10)
    assert [w.outcome for w in await store.write([transitions.expire(late, clock.random)])] == [Outcome.BUSY]
    await transaction.rollback()
    assert (await read(store, "a")).status is Status.CLAIMED

    async with own.transaction():
        await store.write([completed(job, b"7")], connection=own)
    done = await read(store, "a")
    assert (done.status, done.result) == (Status.COMPLETED, 7)


async def test_a_stale_holder_s_transaction_is_aborted(store: PostgresStore, own: asyncpg.Connection) -> None:
    await own.execute("CREATE TEMPORARY TABLE sold (id text)")
    job = await enqueue_and_claim(store, new_job("a"))
    await store.write([transitions.cancel("a")])
    transaction = own.transaction()
    await transaction.start()
    await own.execute("INSERT INTO sold VALUES ('a')")
    [written] = await store.write([completed(job)], connection=own)

    assert written.outcome is Outcome.LOST
    with pytest.raises(asyncpg.InFailedSQLTransactionError):
        await own.execute("SELECT 1")
    await transaction.rollback()
    assert await own.fetchval("SELECT count(*) FROM sold") == 0


async def test_repeating_is_no_reason_to_abort(store: PostgresStore, own: asyncpg.Connection) -> None:
    job = await enqueue_and_claim(store, new_job("a"))
    await store.write([completed(job)])
    async with own.transaction():
        [written] = await store.write([completed(job)], connection=own)
        assert written.outcome is Outcome.REPEATED
        await own.execute("SELECT 1")


async def test_a_user_s_commit_wakes_who_waits(store: PostgresStore, own: asyncpg.Connection, clock: FakeClock) -> None:
    running = asyncio.ensure_future(store.wait(one(), 3600))
    await asyncio.sleep(0.1)
    async with own.transaction():
        await store.insert([[new_job("a")]], connection=own)

    await soon(running, clock)
    assert (await claim_one(store)).id == "a"


async def test_the_user_s_patience_is_left_as_it_was(store: PostgresStore, own: asyncpg.Connection) -> None:
    job = await enqueue_and_claim(store, new_job())
    async with own.transaction():
        await own.execute("SET LOCAL lock_timeout = '7s'")
        await store.insert([[new_job("a")]], connection=own)
        await store.write([transitions.release(job.ref)], connection=own)
        assert await own.fetchval("SHOW lock_timeout") == "7s"


async def test_psycopg_that_waits(store: PostgresStore, waiting: psycopg.AsyncConnection) -> None:
    async with waiting.transaction():
        await store.insert([[new_job("a", tags=("t",), idempotency_key="k")]], connection=waiting)
        assert await store.get(["a"]) == [None]
    job = await claim_one(store)
    async with waiting.transaction():
        [written] = await store.write([completed(job, b"[1]")], connection=waiting)
    assert written.outcome is Outcome.APPLIED
    assert (await read(store, "a")).result == [1]

    [lost] = await store.write([transitions.release(job.ref)], connection=waiting)
    assert lost.outcome is Outcome.LOST
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        await waiting.execute("SELECT 1")


async def test_psycopg_that_blocks(store: PostgresStore, blocking: psycopg.Connection) -> None:
    await store.insert([[new_job("a")], [new_job("b")]], connection=blocking)
    blocking.rollback()
    await store.insert([[new_job("c")]], connection=blocking)
    blocking.commit()

    job = await claim_one(store)
    assert job.id == "c"
    await store.write([completed(job)], connection=blocking)
    blocking.commit()
    assert (await read(store, "c")).status is Status.COMPLETED


async def test_anything_else_is_not_supported(
    store: PostgresStore, own: asyncpg.Connection, blocking: psycopg.Connection
) -> None:
    with pytest.raises(NotSupported, match="no transaction"):
        await store.insert([[new_job()]], connection=own)
    with pytest.raises(NotSupported, match="object cannot be used"):
        await store.write([], connection=object())
    blocking.autocommit = True
    with pytest.raises(NotSupported, match="no transaction"):
        await store.insert([[new_job()]], connection=blocking)
