"""Calls inside the user's own transaction on a server's database, through the app, on the drivers that users have."""
# ruff: noqa: PT012 - what a block raises is the subject

from collections.abc import AsyncIterator

import psycopg
import pytest

import dibs
from dibs import App, Status
from tests.stores.servers.kinds import KINDS, Kind, Own


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
def url(kind: Kind) -> str:
    return kind.empty()


@pytest.fixture
async def shop(url: str) -> AsyncIterator[App]:
    async with App(url) as app:
        yield app


@pytest.fixture
async def db(kind: Kind, url: str) -> AsyncIterator[Own]:
    own = await kind.connected(url)
    await own.run("CREATE TEMPORARY TABLE sold (id varchar(128))")
    yield own
    await own.close()


async def sell(db: Own, claim: dibs.Claim) -> None:
    await db.run(f"INSERT INTO sold VALUES ('{claim.id}')")


async def sold(db: Own) -> int:
    return int(await db.value("SELECT count(*) FROM sold"))


async def held(app: App) -> dibs.Claim:
    await app.enqueue("t", max_attempts=1)
    claim = await app.claim(lease=30)
    assert claim is not None
    return claim


async def status_of(app: App, claim: dibs.Claim) -> Status:
    job = await app.get(claim.id)
    assert job is not None
    return job.status


async def test_enqueue_commits_or_vanishes_with_the_transaction(shop: App, db: Own) -> None:
    for end in ("rollback", "commit"):
        await db.begin()
        await shop.enqueue("t", end, connection=db.connection)
        await getattr(db, end)()

    assert [job.params async for job in shop.find()] == ["commit"]


async def test_the_effect_and_the_end_commit_together(shop: App, db: Own) -> None:
    claim = await held(shop)
    async with claim:
        await db.begin()
        await sell(db, claim)
        await claim.complete(5, connection=db.connection)
        await db.commit()

    assert await status_of(shop, claim) is Status.COMPLETED
    assert await sold(db) == 1


async def test_an_exception_after_which_the_user_rolls_back_fails_the_job(shop: App, db: Own) -> None:
    claim = await held(shop)
    with pytest.raises(ZeroDivisionError):
        async with claim:
            await db.begin()
            try:
                await sell(db, claim)
                await claim.complete(connection=db.connection)
                _ = 1 / 0
            finally:
                await db.rollback()

    assert await status_of(shop, claim) is Status.FAILED
    assert await sold(db) == 0


async def test_a_stale_holder_is_told_before_it_commits(shop: App, db: Own) -> None:
    claim = await held(shop)
    await shop.cancel(claim.id)
    await db.begin()
    await sell(db, claim)
    with pytest.raises(dibs.LeaseLost):
        await claim.complete(connection=db.connection)
    await db.rollback()

    assert await sold(db) == 0
    assert await status_of(shop, claim) is Status.CANCELLED


async def test_a_claim_whose_row_is_locked_is_neither_extended_nor_lost(shop: App, db: Own) -> None:
    claim = await held(shop)
    await db.begin()
    await claim.complete(connection=db.connection)
    await shop.counts()
    assert not claim.lost
    assert await status_of(shop, claim) is Status.CLAIMED
    await db.commit()

    assert await status_of(shop, claim) is Status.COMPLETED


def test_the_sync_twin_uses_the_callers_connection(kind: Kind, url: str) -> None:
    with App(url).sync as queue, kind.blocking(url) as connection:
        queue.enqueue("t", connection=connection)
        connection.commit()
        claim = queue.claim()
        assert claim is not None
        with claim:
            claim.complete("done", connection=connection)
            connection.commit()
        assert queue.wait(claim.id).result == "done"


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
async def test_psycopg_that_rolls_back_fails_the_job(shop: App, url: str) -> None:
    claim = await held(shop)
    async with await psycopg.AsyncConnection.connect(url) as connection:
        with pytest.raises(ZeroDivisionError):
            async with claim, connection.transaction():
                await claim.complete(connection=connection)
                _ = 1 / 0

    assert await status_of(shop, claim) is Status.FAILED


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
async def test_psycopg_that_is_closed_fails_the_job(shop: App, url: str) -> None:
    """As by a framework that closes connections on the way out of the handler."""
    claim = await held(shop)
    with pytest.raises(ZeroDivisionError):
        async with claim, await psycopg.AsyncConnection.connect(url) as connection:
            await claim.complete(connection=connection)
            _ = 1 / 0

    assert await status_of(shop, claim) is Status.FAILED
