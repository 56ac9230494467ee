"""Schemas of one database, and URLs. What holds of the schema on any server is in ``tests/stores/servers``."""

import asyncpg
import pytest

from dibs.clock import Clock
from dibs.domain.errors import InvalidRequest
from dibs.stores.postgres import PostgresStore, address
from dibs.testing.conformance.builders import claim_one, enqueue, new_job
from tests.servers.databases import bare_postgres


@pytest.fixture
def bare() -> str:
    return bare_postgres("bare")


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
