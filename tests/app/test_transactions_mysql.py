"""Calls inside the user's own transaction on MySQL and MariaDB, through the app: asyncmy, and PyMySQL."""
# ruff: noqa: PT012 - what a block raises is the subject

from collections.abc import AsyncIterator
from typing import Any

import asyncmy
import pytest

import dibs
from dibs import App, Status
from dibs.stores.mysql import address
from tests.servers.databases import connect_mysql, empty_mysql


@pytest.fixture
def url() -> str:
    return empty_mysql()


@pytest.fixture
async def shop(url: str) -> AsyncIterator[App]:
    async with App(url) as app:
        yield app


@pytest.fixture
async def db(url: str) -> AsyncIterator[Any]:
    read = address.read(url)
    connection = await asyncmy.connect(
        host=read.host, port=read.port, user=read.user, password=read.password, database=read.database
    )
    async with connection.cursor() as cursor:
        await cursor.execute("CREATE TEMPORARY TABLE sold (id varbinary(128)) ENGINE = InnoDB")
    yield connection
    await connection.ensure_closed()


async def sell(db: Any, claim: dibs.Claim) -> None:
    async with db.cursor() as cursor:
        await cursor.execute("INSERT INTO sold VALUES (%s)", (claim.id,))


async def sold(db: Any) -> int:
    async with db.cursor() as cursor:
        await cursor.execute("SELECT count(*) FROM sold")
        [(number,)] = await cursor.fetchall()
    return int(number)


async def held(app: App) -> dibs.Claim:
    await app.enqueue("t", max_attempts=1)
    claim = await app.claim(lease=30)
    assert claim is not None
    return claim


async def status_of(app: App, claim: dibs.Claim) -> Status:
    job = await app.get(claim.id)
    assert job is not None
    return job.status


async def test_enqueue_commits_or_vanishes_with_the_transaction(shop: App, db: Any) -> None:
    for end in ("rollback", "commit"):
        await db.begin()
        await shop.enqueue("t", end, connection=db)
        await getattr(db, end)()

    assert [job.params async for job in shop.find()] == ["commit"]


async def test_the_effect_and_the_end_commit_together(shop: App, db: Any) -> None:
    claim = await held(shop)
    async with claim:
        await sell(db, claim)
        await claim.complete(5, connection=db)
        await db.commit()

    assert await status_of(shop, claim) is Status.COMPLETED
    assert await sold(db) == 1


async def test_an_exception_after_which_the_user_rolls_back_fails_the_job(shop: App, db: Any) -> None:
    claim = await held(shop)
    with pytest.raises(ZeroDivisionError):
        async with claim:
            try:
                await sell(db, claim)
                await claim.complete(connection=db)
                _ = 1 / 0
            finally:
                await db.rollback()

    assert await status_of(shop, claim) is Status.FAILED
    assert await sold(db) == 0


async def test_a_stale_holder_is_told_before_it_commits(shop: App, db: Any) -> None:
    claim = await held(shop)
    await shop.cancel(claim.id)
    await sell(db, claim)
    with pytest.raises(dibs.LeaseLost):
        await claim.complete(connection=db)
    await db.rollback()

    assert await sold(db) == 0
    assert await status_of(shop, claim) is Status.CANCELLED


async def test_a_claim_whose_row_is_locked_is_neither_extended_nor_lost(shop: App, db: Any) -> None:
    claim = await held(shop)
    await claim.complete(connection=db)
    await shop.counts()
    assert not claim.lost
    assert (await shop.get(claim.id)).status is Status.CLAIMED  # type: ignore[union-attr]
    await db.commit()

    assert await status_of(shop, claim) is Status.COMPLETED


def test_the_sync_twin_uses_the_callers_connection(url: str) -> None:
    with App(url).sync as queue, connect_mysql(url, autocommit=False) as connection:
        queue.enqueue("t", connection=connection)
        connection.commit()
        claim = queue.claim()
        assert claim is not None
        with claim:
            claim.complete("done", connection=connection)
            connection.commit()
        assert queue.wait(claim.id).result == "done"
