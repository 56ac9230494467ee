"""A claim beside others who hold rows: it passes them by, and waits for no one."""

import asyncio

from dibs.stores.mysql import MysqlStore
from dibs.testing.conformance.builders import claim, enqueue, ids, new_job
from tests.stores.mysql.conftest import Own


async def test_a_claim_passes_by_what_another_holds(real: MysqlStore, own: Own) -> None:
    """Whoever does not see that it is held waits for it, and takes it as well."""
    await enqueue(real, new_job("held", priority=1), new_job("free"))
    await own.run("SELECT seq FROM dibs_job WHERE id = 'held' FOR UPDATE")
    assert ids(await asyncio.wait_for(claim(real, limit=2), 10)) == ["free"]
    await own.rollback()
    assert ids(await claim(real, limit=2)) == ["held"]
