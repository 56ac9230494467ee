"""While another transaction holds an old snapshot open, a claim does the work that it did before.

InnoDB may purge nothing then: the index entries of all that was claimed since are still there, marked as deleted.
Counted in pages visited, which no busy machine changes.
"""

import json
from typing import Any

from bench.subjects import complete_all, draft, insert, request
from dibs.clock import FakeClock
from dibs.stores.mysql import MysqlStore
from dibs.stores.mysql.literals import Step
from dibs.stores.mysql.looking import START
from dibs.stores.mysql.statements import statement
from tests.servers.databases import connect_mysql
from tests.stores.mysql.conftest import Own

JOBS, BATCH = 8_000, 100


def pages(url: str, now: int, lane: int, place: tuple[int, int]) -> int:
    """Count the pages that the search for one job visits in a lane, from a place on; nothing is locked."""
    sql = Step(statement("claim_candidates"), (lane, *place, place[0], now, 1, 1)).text
    with connect_mysql(url) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        cursor.execute(f"ANALYZE FORMAT=JSON {sql}")
        [(told,)] = cursor.fetchall()
    return sum(_pages(json.loads(told)))


def _pages(plan: Any) -> list[int]:
    """Gather what the server says of each table, however deep it is."""
    if isinstance(plan, list):
        return [number for each in plan for number in _pages(each)]
    if not isinstance(plan, dict):
        return []
    return [plan.get("pages_accessed", 0), *(number for each in plan.values() for number in _pages(each))]


async def test_a_held_snapshot_makes_no_claim_visit_more(
    store: MysqlStore, own: Own, clock: FakeClock, url: str
) -> None:
    await insert(store, (draft(clock) for _ in range(JOBS)))
    clock.advance(0.5)  # what came in just now may have company that commits late: no place is believed there yet
    await own.begin()
    await own.value("SELECT count(*) FROM dibs_job")  # it sees all of them pending, for as long as it lasts
    visited: list[int] = []
    lane = 0
    for number in range(JOBS // BATCH - 1):
        [jobs] = await store.claim([request(BATCH)])
        assert len(jobs) == BATCH
        await complete_all(store, jobs)
        if number in {1, JOBS // BATCH - 2}:
            [lane], [due], [seq] = store._places.read()
            visited.append(pages(url, clock.now(), lane, (due, seq)))
    walked = pages(url, clock.now(), lane, START)

    early, late = visited
    assert late <= early + 3  # where its index was split, a search visits a page more of each level
    assert walked > 2 * late  # it is the places that make the difference: from the start it walks over all that is dead
