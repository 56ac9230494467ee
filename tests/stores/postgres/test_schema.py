"""The schema: made by ``migrate`` alone, once, by whoever comes first."""

import asyncio
import subprocess
import sys

import asyncpg
import pytest

from dibs.clock import Clock
from dibs.domain.errors import InvalidRequest, SchemaOutdated
from dibs.stores.postgres import PostgresStore, address, migrate
from dibs.testing.conformance.builders import claim_one, enqueue, new_job
from tests.servers.databases import bare_postgres

STEPS = [step.name for step in migrate.steps()]


@pytest.fixture
def bare() -> str:
    return bare_postgres("bare")


async def test_first_use_of_a_schema_that_is_not_there(bare: str) -> None:
    store = PostgresStore(bare, Clock())
    with pytest.raises(SchemaOutdated) as caught:
        await enqueue(store, new_job())
    assert "dibs migrate" in caught.value.hint

    assert await store.migrate(dry_run=True) == STEPS
    with pytest.raises(SchemaOutdated):
        await store.open()
    assert await store.migrate() == STEPS
    assert await store.migrate() == await store.migrate(dry_run=True) == []
    await enqueue(store, new_job("a"))
    assert (await claim_one(store)).id == "a"
    await store.close()


async def test_a_schema_newer_than_this_dibs_is_refused(bare: str) -> None:
    store = PostgresStore(bare, Clock())
    await store.migrate()
    connection = await asyncpg.connect(bare)
    await connection.execute("INSERT INTO dibs_migration (version, name) VALUES (9999, 'later')")
    await connection.close()

    with pytest.raises(SchemaOutdated, match="9999") as caught:
        await store.open()
    assert "upgrade dibs" in caught.value.hint
    await store.close()


async def test_many_migrate_at_once(bare: str) -> None:
    done = await asyncio.gather(*(PostgresStore(bare, Clock()).migrate() for _ in range(6)))

    assert sorted(done) == [[]] * 5 + [STEPS]


def test_two_processes_migrate_at_once(bare: str) -> None:
    command = [sys.executable, "-m", "dibs", "migrate", "--store", bare]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = sorted(process.communicate(timeout=50)[0].strip() for process in running)

    assert [process.returncode for process in running] == [0, 0]
    assert said == ["nothing to do: the schema is up to date", "\n".join(f"ran {name}" for name in STEPS)]


async def test_two_schemas_of_one_database(bare: str) -> None:
    connection = await asyncpg.connect(bare)
    await connection.execute("CREATE SCHEMA one; CREATE SCHEMA two")
    await connection.close()
    stores = [PostgresStore(f"{bare}?search_path={name}", Clock()) for name in ("one", "two")]
    for store in stores:
        await store.migrate()
        await store.open()
    await enqueue(stores[0], new_job("a"))

    assert [(await store.counts()).pending for store in stores] == [1, 0]
    for store in stores:
        await store.close()


def test_a_url_is_read() -> None:
    read = address.read("postgres://me:secret@db:5433/jobs?pool=3&prepared=no&listen=no&sslmode=require")

    assert read == address.Address(
        "postgresql://me:secret@db:5433/jobs?sslmode=require", "postgresql://db:5433/jobs", 3, False, False
    )
    for bad in ("pool=0", "pool=x", "prepared=maybe", "listen=1"):
        with pytest.raises(InvalidRequest, match=bad.partition("=")[0]):
            address.read(f"postgresql://db/jobs?{bad}")
    with pytest.raises(InvalidRequest):
        address.read("postgresql://db:port/jobs")


async def test_without_prepared_statements_and_listening(url: str) -> None:
    """As behind PgBouncer in transaction mode."""
    store = PostgresStore(f"{url}?prepared=no&listen=no", Clock())
    await enqueue(store, new_job("a"))
    job = await claim_one(store)
    assert [event.event for event in await store.log(job.id)] == ["enqueued", "claimed"]
    await store.close()
