"""Workers and users behind a real PgBouncer: in transaction mode as the docs say, and in session mode as it is."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

import dibs
from dibs.clock import Clock
from dibs.domain.finding import Level
from dibs.stores.postgres import PostgresStore
from dibs.testing.conformance.builders import claim, completed, enqueue, new_jobs, settle
from tests.servers import pgbouncer
from tests.servers.databases import bare_postgres, empty_postgres


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with pgbouncer.running(empty_postgres()) as port:
        yield port


@pytest.fixture
def pooled(url: str, port: int) -> str:
    return pgbouncer.through(port, url)


@pytest.fixture
async def app(pooled: str) -> AsyncIterator[dibs.App]:
    async with dibs.App(pooled, reap_every=0.2) as app:
        yield app


async def test_a_worker(app: dibs.App) -> None:
    ran: Counter[int] = Counter()

    @app.task(max_attempts=2)
    async def work(number: int) -> int:
        ran[number] += 1
        if number % 10 == 0 and dibs.current().attempt == 1:
            raise dibs.Retry(delay=0)
        return number

    worker = dibs.Worker(app, concurrency=20)
    running = asyncio.ensure_future(worker.run())
    for step in range(10):
        await app.enqueue_many([dibs.NewJob("work", {"number": step * 30 + n}) for n in range(30)])
    async with asyncio.timeout(40):
        while (await app.counts()).completed < 300:  # noqa: ASYNC110 - the worker makes it true
            await asyncio.sleep(0.02)
    worker.stop()
    await running

    assert len(ran) == 300
    assert ran.total() == 330
    assert (await app.verify()).ok


async def test_many_loops_share_few_connections_and_never_see_each_others_rows(pooled: str) -> None:
    """Eight connections for forty callers: whatever a session remembers would be someone else's the next moment."""
    stores = [PostgresStore(f"{pooled}&pool=10", Clock()) for _ in range(4)]
    await enqueue(stores[0], *new_jobs(400))
    taken: list[str] = []

    async def work(store: PostgresStore) -> None:
        while jobs := await claim(store, limit=5):
            taken.extend(job.id for job in jobs)
            found = await store.get([job.id for job in jobs])
            assert [job.id for job in found if job is not None] == [job.id for job in jobs]
            assert set(await settle(store, *map(completed, jobs))) == {"applied"}

    await asyncio.gather(*(work(store) for store in stores for _ in range(10)))
    assert len(taken) == len(set(taken)) == 400
    for store in stores:
        await store.close()


async def test_users_transactions(app: dibs.App, pooled: str) -> None:
    connection = await asyncpg.connect(pooled.partition("?")[0], statement_cache_size=0)
    async with connection.transaction():
        await app.enqueue("t", "kept", connection=connection)
    transaction = connection.transaction()
    await transaction.start()
    await app.enqueue("t", "gone", connection=connection)
    await transaction.rollback()
    [job] = [job async for job in app.find()]
    assert job.params == "kept"
    held = await app.claim()
    assert held is not None
    async with connection.transaction():
        await held.complete(1, connection=connection)
    assert (await app.wait(held.id, 5)).result == 1
    await connection.close()


@pytest.fixture
def bare() -> str:
    return bare_postgres("bounced")


async def test_a_migration(port: int, bare: str) -> None:
    store = PostgresStore(pgbouncer.through(port, bare), Clock())
    assert await store.migrate()
    assert await store.migrate() == []
    await enqueue(store, *new_jobs(1))
    await store.close()


async def test_the_doctor_says_what_is_missing_there(pooled: str) -> None:
    found = {finding.code: finding for finding in await PostgresStore(pooled, Clock()).examine()}
    assert found["idle_in_transaction_session_timeout"].level is Level.WARNING


async def test_without_the_options_it_says_which_are_needed(url: str, port: int) -> None:
    store = PostgresStore(pgbouncer.through(port, url, ""), Clock())
    with pytest.raises(dibs.StoreUnavailable, match="prepared=no&listen=no"):
        await store.open()
    await store.close()


async def test_in_session_mode_others_are_heard(url: str) -> None:
    with pgbouncer.running(url, mode="session") as port:
        async with dibs.App(pgbouncer.through(port, url, "?prepared=no")) as app, dibs.App(url) as other:
            await app.counts()
            store = app.runtime._opened.store
            assert isinstance(store, PostgresStore)
            waiting = asyncio.ensure_future(app.claim(wait=30))
            async with asyncio.timeout(10):
                while not await store._sites.here().listening():  # noqa: ASYNC110 - whoever waits sees to it
                    await asyncio.sleep(0.01)
            await other.enqueue("t")
            held = await asyncio.wait_for(waiting, 10)
            assert held is not None
            await held.complete()
