"""Calls inside the user's own transaction on PostgreSQL, through the app: asyncpg, and psycopg of either kind."""
# ruff: noqa: PT012 - what a block raises is the subject

from collections.abc import AsyncIterator

import asyncpg
import psycopg
import pytest

import dibs
from dibs import App, Status
from tests.servers.databases import empty_postgres


@pytest.fixture
def url() -> str:
    return empty_postgres()


@pytest.fixture
async def shop(url: str) -> AsyncIterator[App]:
    async with App(url) as app:
        yield app


@pytest.fixture
async def db(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE TEMPORARY TABLE sold (id text)")
    yield connection
    await connection.close()


async def held(app: App) -> dibs.Claim:
    await app.enqueue("t", max_attempts=1)
    claim = await app.claim(lease=30)
    assert claim is not None
    return claim


async def status_of(app: App, claim: dibs.Claim) -> Status:
    job = await app.get(claim.id)
    assert job is not None
    return job.status


async def test_enqueue_commits_or_vanishes_with_the_transaction(shop: App, db: asyncpg.Connection) -> None:
    for end in ("rollback", "commit"):
        transaction = db.transaction()
        await transaction.start()
        await shop.enqueue("t", end, connection=db)
        await getattr(transaction, end)()

    assert [job.params async for job in shop.find()] == ["commit"]


async def test_the_effect_and_the_end_commit_together(shop: App, db: asyncpg.Connection) -> None:
    claim = await held(shop)
    async with claim, db.transaction():
        await db.execute("INSERT INTO sold VALUES ($1)", claim.id)
        await claim.complete(5, connection=db)

    assert await status_of(shop, claim) is Status.COMPLETED
    assert await db.fetchval("SELECT count(*) FROM sold") == 1


async def test_an_exception_that_rolls_back_fails_the_job(shop: App, db: asyncpg.Connection) -> None:
    claim = await held(shop)
    with pytest.raises(ZeroDivisionError):
        async with claim, db.transaction():
            await db.execute("INSERT INTO sold VALUES ($1)", claim.id)
            await claim.complete(connection=db)
            _ = 1 / 0

    assert await status_of(shop, claim) is Status.FAILED
    assert await db.fetchval("SELECT count(*) FROM sold") == 0


async def test_a_stale_holder_cannot_commit(shop: App, db: asyncpg.Connection) -> None:
    claim = await held(shop)
    await shop.cancel(claim.id)
    with pytest.raises(dibs.LeaseLost):
        async with db.transaction():
            await db.execute("INSERT INTO sold VALUES ($1)", claim.id)
            await claim.complete(connection=db)

    assert await db.fetchval("SELECT count(*) FROM sold") == 0


async def test_psycopg_that_rolls_back_fails_the_job(shop: App, url: str) -> None:
    claim = await held(shop)
    async with await psycopg.AsyncConnection.connect(url) as connection:
        with pytest.raises(ZeroDivisionError):
            async with claim, connection.transaction():
                await claim.complete(connection=connection)
                _ = 1 / 0

    assert await status_of(shop, claim) is Status.FAILED


def test_the_sync_twin_uses_the_callers_connection(url: str) -> None:
    with App(url).sync as queue, psycopg.connect(url) as connection:
        queue.enqueue("t", connection=connection)
        connection.commit()
        claim = queue.claim()
        assert claim is not None
        with claim:
            claim.complete("done", connection=connection)
            connection.commit()
        assert queue.wait(claim.id).result == "done"
