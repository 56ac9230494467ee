"""A claim beside others who hold rows: it passes them by, and waits for no one."""

import asyncio

import asyncpg

from dibs.stores.postgres import PostgresStore
from dibs.testing.conformance.builders import claim, enqueue, ids, new_job


async def test_a_claim_passes_by_what_another_holds(store: PostgresStore, own: asyncpg.Connection) -> None:
    """Whoever does not see that it is held waits for it, and takes it as well."""
    await enqueue(store, new_job("held", priority=1), new_job("free"))
    async with own.transaction():
        await own.execute("SELECT FROM dibs_job WHERE id = 'held' FOR UPDATE")
        assert ids(await asyncio.wait_for(claim(store, limit=2), 10)) == ["free"]
    assert ids(await claim(store, limit=2)) == ["held"]
