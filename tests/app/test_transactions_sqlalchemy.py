"""Calls inside a transaction of SQLAlchemy's, through the app: connections and sessions, on both drivers."""
# ruff: noqa: PT012 - what a block raises is the subject

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

import dibs
from dibs import App, Status
from tests.servers.databases import empty_postgres

SOLD = "INSERT INTO sold VALUES (:id)"
COUNT = "SELECT count(*) FROM sold"


@pytest.fixture
def url() -> str:
    return empty_postgres()


@pytest.fixture
async def shop(url: str) -> AsyncIterator[App]:
    async with App(url, reap_every=0.2) as app:
        yield app


@pytest.fixture(params=["asyncpg", "psycopg"])
async def engine(url: str, request: pytest.FixtureRequest) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(url.replace("postgresql://", f"postgresql+{request.param}://"))
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE IF NOT EXISTS sold (id text)"))
        await connection.execute(text("TRUNCATE sold"))
    yield engine
    await engine.dispose()


@pytest.fixture
def blocking(url: str) -> Iterator[Engine]:
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS sold (id text)"))
        connection.execute(text("TRUNCATE sold"))
    yield engine
    engine.dispose()


@asynccontextmanager
async def opened(engine: AsyncEngine, kind: str) -> AsyncIterator[Any]:
    if kind == "connection":
        async with engine.connect() as connection:
            yield connection
    else:
        async with AsyncSession(engine) as session:
            yield session


def opened_blocking(engine: Engine, kind: str) -> Any:
    return engine.connect() if kind == "connection" else Session(engine)


async def held(app: App, lease: float = 30) -> dibs.Claim:
    await app.enqueue("t", max_attempts=1)
    claim = await app.claim(lease=lease)
    assert claim is not None
    return claim


async def status_of(app: App, claim: dibs.Claim) -> Status:
    job = await app.get(claim.id)
    assert job is not None
    return job.status


async def count(engine: AsyncEngine) -> int:
    async with engine.connect() as connection:
        return int(await connection.scalar(text(COUNT)))


@pytest.mark.parametrize("kind", ["connection", "session"])
class TestAsync:
    async def test_enqueue_commits_or_vanishes_with_the_transaction(
        self, shop: App, engine: AsyncEngine, kind: str
    ) -> None:
        async with opened(engine, kind) as db:
            for end in ("rollback", "commit"):
                await shop.enqueue("t", end, connection=db)  # before any statement of theirs
                await db.execute(text(SOLD), {"id": end})
                assert [job async for job in shop.find()] == []
                await getattr(db, end)()

        assert [job.params async for job in shop.find()] == ["commit"]
        assert await count(engine) == 1

    async def test_the_effect_and_the_end_commit_together(self, shop: App, engine: AsyncEngine, kind: str) -> None:
        claim = await held(shop)
        async with opened(engine, kind) as db, claim, db.begin():
            await db.execute(text(SOLD), {"id": claim.id})
            await claim.complete(5, connection=db)
            assert await status_of(shop, claim) is Status.CLAIMED

        assert await status_of(shop, claim) is Status.COMPLETED
        assert await count(engine) == 1

    async def test_an_exception_that_rolls_back_fails_the_job(self, shop: App, engine: AsyncEngine, kind: str) -> None:
        claim = await held(shop)
        with pytest.raises(ZeroDivisionError):
            async with claim, opened(engine, kind) as db, db.begin():
                await db.execute(text(SOLD), {"id": claim.id})
                await claim.complete(connection=db)
                _ = 1 / 0

        assert await status_of(shop, claim) is Status.FAILED
        assert await count(engine) == 0

    async def test_a_stale_holder_cannot_commit(self, shop: App, engine: AsyncEngine, kind: str) -> None:
        claim = await held(shop)
        await shop.cancel(claim.id)
        async with opened(engine, kind) as db:
            await db.execute(text(SOLD), {"id": claim.id})
            with pytest.raises(dibs.LeaseLost):
                await claim.complete(connection=db)
            with pytest.raises(DBAPIError):  # the server has aborted it, too
                await db.execute(text("SELECT 1"))
            await db.rollback()
            await db.execute(text("SELECT 1"))

        assert await count(engine) == 0

    async def test_a_row_that_is_locked_is_neither_extended_nor_taken_over(
        self, shop: App, engine: AsyncEngine, kind: str
    ) -> None:
        claim = await held(shop, lease=0.2)
        async with opened(engine, kind) as db:
            await claim.complete("mine", connection=db)
            await asyncio.sleep(0.6)  # the lease has run out, and everyone reaps
            assert await shop.claim("other") is None
            await db.commit()

        job = await shop.get(claim.id)
        assert job is not None
        assert (job.status, job.result, job.fence) == (Status.COMPLETED, "mine", 1)

    async def test_a_transaction_that_was_aborted_is_told(self, shop: App, engine: AsyncEngine, kind: str) -> None:
        async with opened(engine, kind) as db:
            with pytest.raises(DBAPIError):
                await db.execute(text("SELECT 1/0"))
            with pytest.raises(dibs.StoreUnavailable, match="Roll back"):
                await shop.enqueue("t", connection=db)
            await db.rollback()
            await shop.enqueue("t", connection=db)
            await db.commit()
        assert (await shop.counts()).pending == 1


@pytest.mark.parametrize("kind", ["connection", "session"])
class TestBlocking:
    def test_enqueue_and_complete(self, url: str, blocking: Engine, kind: str) -> None:
        with App(url).sync as queue, opened_blocking(blocking, kind) as db:
            for end in ("rollback", "commit"):
                queue.enqueue("t", end, connection=db)
                getattr(db, end)()
            claim = queue.claim()
            assert claim is not None
            assert claim.params == "commit"
            with claim:
                db.execute(text(SOLD), {"id": claim.id})
                claim.complete("done", connection=db)
                db.commit()
            assert queue.wait(claim.id).result == "done"
            assert db.scalar(text(COUNT)) == 1

    def test_a_stale_holder_cannot_commit(self, url: str, blocking: Engine, kind: str) -> None:
        with App(url).sync as queue, opened_blocking(blocking, kind) as db:
            queue.enqueue("t")
            claim = queue.claim()
            assert claim is not None
            queue.cancel(claim.id)
            db.execute(text(SOLD), {"id": claim.id})
            with pytest.raises(dibs.LeaseLost):
                claim.complete(connection=db)
            with pytest.raises(DBAPIError):
                db.execute(text("SELECT 1"))
            db.rollback()
            assert db.scalar(text(COUNT)) == 0


async def test_a_connection_that_commits_by_itself_is_refused(shop: App, engine: AsyncEngine) -> None:
    async with engine.connect() as connection:
        own = await connection.execution_options(isolation_level="AUTOCOMMIT")
        with pytest.raises(dibs.NotSupported, match="no transaction"):
            await shop.enqueue("t", connection=own)
    assert (await shop.counts()).pending == 0
