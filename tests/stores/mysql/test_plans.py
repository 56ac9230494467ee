"""The hot statements walk the indexes they name, on empty tables and on full ones, and lock no more than they take."""

import asyncio
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dibs.clock import Clock
from dibs.domain.job import Query, Status
from dibs.stores.mysql import MysqlStore, address, finding, migrate
from dibs.stores.mysql.link import Link
from dibs.stores.mysql.literals import Json, Step
from dibs.stores.mysql.statements import statement
from dibs.testing.conformance.builders import claim, enqueue, ids, new_job, new_jobs
from tests.servers.databases import bare_mysql, connect_mysql
from tests.stores.mysql.conftest import Own

LANES, MANY = 5, 8_000
JOBS = """
  INSERT INTO dibs_job (seq, lane, id, due, first_due, created, updated, max_attempts, lease, kept, terms, params,
    fence, token, status, lease_expires, expires)
  VALUES (%s, %s, %s, %s, %s, %s, %s, 3, 1, 1, '', '', 1, 't', %s, %s, %s)"""
EVENTS = """
  INSERT INTO dibs_event (job, n, event, at, due, fence, attempts)
  SELECT seq, 2, 'claimed', seq, seq, 1, 0 FROM dibs_job"""
PLACE = (-1, -1, -1)
IN_ALL: tuple[Any, ...] = (True, (), True, ())

# What is filled in, and which index each table is reached by: as a single key, or as a walk of a part of it.
HOT: dict[str, tuple[tuple[Any, ...], dict[str, str]]] = {
    "claim_lanes": (((), 1, None, *IN_ALL), {"job": "dibs_job_agenda"}),
    "claim_first": ((1, *PLACE, 1), {"job": "dibs_job_agenda"}),
    "claim_candidates": ((1, *PLACE, 10_000, 1, 100), {"job": "dibs_job_agenda"}),
    "claim_lock": ((1, *PLACE, 10_000, 1, 100), {"job": "dibs_job_agenda"}),
    "claim_lock_seq": ((Json([1, 2]), 10_000, 1), {"job": "PRIMARY"}),
    "claim_pick_one": ((None, b"1", *IN_ALL), {"job": "dibs_job_id", "lane": "PRIMARY"}),
    "claim_pick_oldest": (((1, 2), 10_000, 1, 10), {"job": "dibs_job_agenda"}),
    "complete_lock": ((Json([["1", 1, "t"]]),), {"job": "dibs_job_id"}),
    "extend_lock": ((Json([["1", 1, "t"]]),), {"job": "dibs_job_id"}),
    "extend_held": ((Json([["1", 1, "t"]]),), {"job": "dibs_job_id"}),
    "write_lock": ((Json(["1"]),), {"job": "dibs_job_id"}),
    "write_elsewhere": ((Json(["1"]),), {"job": "dibs_job_id"}),
    "write_keys": (((b"u",),), {"job": "dibs_job_unique_key"}),
    "expired_lanes": ((), {"job": "dibs_job_agenda"}),
    "expired": ((1, 10_000, 100), {"job": "dibs_job_agenda"}),
    "prune_lanes": ((), {"job": "dibs_job_agenda"}),
    "prune_find": ((1, "completed", 10_000, 100), {"job": "dibs_job_agenda"}),
    "remove_job": ((Json([1]),), {"job": "PRIMARY"}),
    "remove_log": ((Json([1]),), {"event": "PRIMARY"}),
    "remove_tag": ((Json([["t", 1]]),), {"tag": "PRIMARY"}),
    "lane_share": ((Json([1]),), {"lane": "PRIMARY"}),
    "lane_lock": ((Json([1]),), {"lane": "PRIMARY"}),
    "lane_names": ((Json([1]),), {"lane": "PRIMARY"}),
    "lane_find": ((Json([["q", "t1", 0]]),), {"lane": "dibs_lane_name"}),
    "insert_later": ((Json([["1", 5]]), 5, 5), {"job": "dibs_job_id"}),
    "insert_tag": ((Json([["1", "t"]]),), {"job": "dibs_job_id"}),
    "tombstone_old": ((0, 100), {"dibs_tombstone": "dibs_tombstone_at"}),
    "document_old": ((0, 100), {"dibs_document": "dibs_document_expires"}),
}
KEYED = {"const", "eq_ref", "ref", "range", "ref_or_null"}
SORTED = {"claim_pick_oldest"}


@pytest.fixture(params=["empty", "full", "analyzed"])
async def link(request: pytest.FixtureRequest) -> AsyncIterator[Link]:
    link = await Link.connect(address.read(await asyncio.to_thread(filled, request.param)))
    yield link
    await link.close()


@cache
def filled(how: str) -> str:
    """Make a database for all plans of this process: with lanes only, or with jobs of every kind."""
    url = bare_mysql(f"plans_{how}")
    asyncio.run(MysqlStore(url, Clock()).migrate())
    with connect_mysql(url) as connection, connection.cursor() as cursor:
        lanes = ", ".join(f"({n}, 'q', 't{n}', 0)" for n in range(1, LANES + 1))
        cursor.execute(f"INSERT INTO dibs_lane (id, queue, task, priority) VALUES {lanes}")
        if how != "empty":
            cursor.executemany(JOBS, [_job(n) for n in range(1, MANY + 1)])
            cursor.execute(EVENTS)
        if how == "analyzed":
            cursor.execute("ANALYZE TABLE dibs_job, dibs_lane, dibs_event")
    return url


def _job(n: int) -> tuple[Any, ...]:
    ends = {"pending": (None, None), "claimed": (n, None), "completed": (n, n), "failed": (n, n)}
    status = list(ends)[n % 4]
    return (n, 1 + n % LANES, n, n, n, n, n, status, *ends[status])


async def plan(link: Link, sql: str, bindings: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Explain: id, kind, table, type, possible keys, key, length, ref, rows, remarks."""
    [rows] = await link.send(["EXPLAIN " + Step(sql, bindings).text])
    return rows


@pytest.mark.parametrize("name", HOT)
async def test_a_hot_statement_uses_its_indexes(link: Link, name: str) -> None:
    bindings, indexes = HOT[name]
    rows = await plan(link, statement(name), bindings)

    if len(rows) == 1 and rows[0][2] is None:  # known to find nothing, without looking
        return
    for table, index in indexes.items():
        used = [(row[3], row[5]) for row in rows if row[2] == table]
        assert used, rows
        assert all(kind in KEYED and key == index for kind, key in used), rows
    if name not in SORTED:
        assert not [row for row in rows if "filesort" in (row[9] or "") and row[2] != "moment"], rows


async def test_a_claim_walks_no_further_than_its_limit(link: Link) -> None:
    """Whatever lies before the place, after the limit, in other lanes or in other states is not read."""
    walk = Step(statement("claim_candidates"), (1, 4000, 4001, 4000, 10_000, 1, 10))
    await link.send([walk.text])  # whoever opens a table first reads its statistics too
    await link.send(["FLUSH LOCAL STATUS"])
    [found] = await link.send([walk.text])
    [read] = await link.send(["SHOW LOCAL STATUS LIKE 'Handler_read%'"])

    assert sum(int(number) for name, number in read if name != "Handler_read_rnd_next") <= len(found) + 4


@pytest.mark.parametrize("query", [
    Query(), Query(oldest_first=True, cursor=7), Query(batch_id="b"), Query(tag="t", cursor=9),
    Query(queue="q", task="t", q="x", cursor=9),
])  # fmt: skip
async def test_find_does_not_sort(link: Link, query: Query) -> None:
    sql, bindings = finding.compose(query, (1, 2), few=False)

    assert not [row for row in await plan(link, sql, tuple(bindings)) if "filesort" in (row[9] or "")]


async def test_find_of_a_few_does_not_walk_all(link: Link) -> None:
    sql, bindings = finding.compose(Query(status=(Status.CANCELLED,), queue="q"), (1, 2), few=True)

    [row] = await plan(link, sql, tuple(bindings))
    assert (row[3], row[5]) == ("range", "dibs_job_agenda")


# Locks


async def locked(url: str, own: Own) -> set[str]:
    """Say which jobs another transaction holds: those that one passes by who reads them all."""
    free = await own.run("SELECT id FROM dibs_job FORCE INDEX (PRIMARY) FOR UPDATE SKIP LOCKED")
    await own.connection.rollback()
    return {id.decode() for (id,) in await own.run("SELECT id FROM dibs_job")} - {id.decode() for (id,) in free}


async def test_a_claim_locks_no_more_than_it_takes(store: MysqlStore, url: str, own: Own) -> None:
    await enqueue(store, *(new_job(id) for id in "abcde"), new_job("later", delay=60), new_job("other", task="other"))
    now = await store.now()
    [(lane,)] = await own.run("SELECT lane FROM dibs_job WHERE id = 'a'")
    await own.connection.commit()
    for number, taken in ((2, {"a", "b"}), (5, set("abcde")), (100, set("abcde"))):
        link = await Link.connect(store._address)
        lock = Step(statement("claim_lock"), (lane, *PLACE, now, 1, number))
        _, found = await link.send(["START TRANSACTION", lock.text])

        assert len(found) == len(taken)
        assert await locked(url, own) == taken
        assert len(await claim(store, limit=1, tasks=("other",))) == (1 if number == 2 else 0), "no one waits"
        await link.send(["ROLLBACK"])
        await link.close()


async def test_completing_locks_what_it_names(store: MysqlStore, url: str, own: Own) -> None:
    await enqueue(store, *new_jobs(5))
    jobs = await claim(store, limit=3)
    link = await Link.connect(store._address)
    refs = [[job.id, job.fence, job.lease_token] for job in jobs[:2]] + [[jobs[2].id, 9, "stale"], ["none", 1, "x"]]
    await link.send(["START TRANSACTION", Step(statement("complete_lock"), (Json(refs),)).text])

    assert set(ids(jobs[:2])) <= await locked(url, own) <= set(ids(jobs))
    await link.close()


# The files


def test_every_statement_names_its_race_its_index_and_its_order() -> None:
    folder = Path(migrate.__file__).parent / "sql"
    for file in folder.glob("*.sql"):
        comment = "".join(line for line in file.read_text().splitlines() if line.startswith("--"))
        assert comment.startswith(f"-- {file.name}: ")
        assert all(word in comment for word in ("Race:", "Index:", "Order:")), file.name


def test_every_statement_is_used() -> None:
    folder = Path(migrate.__file__).parent
    code = "".join(file.read_text() for file in folder.glob("*.py"))
    unused = [file.stem for file in (folder / "sql").glob("*.sql") if f'statement("{file.stem}")' not in code]
    assert unused == []
