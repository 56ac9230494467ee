"""While another transaction holds an old snapshot open, a claim does the work that it did before.

Counted in pages visited, which no busy machine changes. The bench holds one for two minutes and takes the time.
"""

import json
from typing import Any

import asyncpg

from bench.subjects import complete_all, draft, insert, request
from dibs.clock import FakeClock
from dibs.stores.postgres import PostgresStore
from dibs.stores.postgres.link import PLANS
from dibs.stores.postgres.statements import statement
from tests.stores.postgres.test_plans import NO_PLACES, literal

JOBS, BATCH = 20_000, 100


async def pages(url: str, now: int, places: list[Any]) -> int:
    """Count the pages that a claim of a hundred visits from these places on; it is taken back."""
    connection = await asyncpg.connect(url, server_settings=PLANS, statement_cache_size=0)
    bindings = [now, None, None, -1, BATCH, 1, *places, [1], ["w"], ["t"], [None], BATCH, False]
    try:
        await connection.execute(f"PREPARE asked AS {statement('claim')}")
        await connection.execute("BEGIN")
        given = ", ".join(map(literal, bindings))
        told = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE asked({given})")
    finally:
        await connection.close()
    plan = json.loads(told)[0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


async def test_a_held_snapshot_makes_no_claim_visit_more(
    store: PostgresStore, own: asyncpg.Connection, clock: FakeClock, url: str
) -> None:
    await insert(store, (draft(clock) for _ in range(JOBS)))
    clock.advance(0.5)  # what came in just now may have company that commits late: no place is believed there yet
    await own.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await own.fetch("SELECT count(*) FROM dibs_job")  # it sees all of them pending, for as long as it lasts
    known = store._places
    visited: list[int] = []
    for number in range(JOBS // BATCH - 1):
        [jobs] = await store.claim([request(BATCH)])
        assert len(jobs) == BATCH
        await complete_all(store, jobs)
        if number in {1, JOBS // BATCH - 2}:
            visited.append(await pages(url, clock.now(), list(known.read())))
    walked = await pages(url, clock.now(), NO_PLACES)

    early, late = visited
    assert late <= 1.2 * early
    assert walked > 2 * late  # it is the places that make the difference: from the start it walks over all that is dead
