"""What is gone is gone: no row of any table is left of jobs whose time is over."""

from dibs.clock import FakeClock
from dibs.domain.transitions import cancel
from dibs.testing.conformance.builders import DAY, claim, completed, enqueue, failed, new_job, settle
from tests.stores.servers.kinds import Kind, Own, ServerStore

TABLES = {
    "postgresql": "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename LIKE 'dibs%'",
    "mysql": """SELECT CAST(table_name AS CHAR) FROM information_schema.tables
      WHERE table_schema = database() AND table_type = 'BASE TABLE' AND table_name LIKE 'dibs%'""",
}
KEPT = {"dibs_migration", "dibs_clock"}
"""Tables that are as large as they always were."""


async def sizes(kind: Kind, own: Own) -> dict[str, int]:
    await own.begin()  # else a user of MySQL has one snapshot for ever
    tables = {name for (name,) in await own.run(TABLES[kind.name])} - KEPT
    rows = {table: await own.value(f"SELECT count(*) FROM {table}") for table in tables}
    await own.rollback()
    return rows


async def test_prune_leaves_nothing_behind(kind: Kind, store: ServerStore, own: Own, clock: FakeClock) -> None:
    names = [f"{n}" for n in range(250)]
    await enqueue(
        store,
        *[
            new_job(id, tags=("x", "y"), keep=10, task=f"t{int(id) % 3}", unique_key=f"u{id}", idempotency_key=f"k{id}")
            for id in names
        ],
    )
    await store.put("note", b"1", keep_us=1)
    jobs = await claim(store, limit=200)
    await settle(store, *map(completed, jobs[:100]), *(failed(job, retryable=False) for job in jobs[100:]))
    await settle(store, *(cancel(id) for id in names))
    full = await sizes(kind, own)
    assert {table for table, rows in full.items() if rows} >= {"dibs_job", "dibs_event", "dibs_tag", "dibs_lane"}
    clock.advance(40 * DAY)

    assert await store.prune(210) == 210
    assert await store.prune(1000) == 40
    clock.advance(2 * DAY)
    await store.prune(1000)
    assert set((await sizes(kind, own)).values()) == {0}
