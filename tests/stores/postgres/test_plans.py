"""The hot statements walk the indexes they name, with or without statistics, whatever lies around."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from dibs.domain.job import Query, Status
from dibs.stores.postgres import finding, migrate
from dibs.stores.postgres.link import PLANS
from dibs.stores.postgres.statements import statement

LANES, MANY = 5, 20_000
NO_PLACES: list[Any] = [[], [], []]
TABLES = "dibs_job, dibs_name, dibs_event, dibs_lane, dibs_tag, dibs_tombstone, dibs_document"

HOT: dict[str, tuple[list[Any], set[str]]] = {
    "claim": (
        [None, None, None, -1, 100, 1, *NO_PLACES, [1], ["w"], ["t"], [None], 100, True],
        {"dibs_job_pending", "dibs_job_leases", "dibs_lane_pkey|dibs_lane_name", "dibs_document_pkey"},
    ),
    "claim_take": ([None, [1], "w", "t", None], {"dibs_job_pkey", "dibs_lane_pkey"}),
    "claim_pick_one": ([None, None, None, 1, "1"], {"dibs_name_pkey", "dibs_job_pkey", "dibs_lane_pkey"}),
    "claim_pick_oldest": ([None, None, None, 1, 10], {"dibs_job_pending", "dibs_document_pkey"}),
    "claim_pick_newest": ([None, None, None, 1, 10], {"dibs_job_pending", "dibs_document_pkey"}),
    "claim_pick_random": ([None, None, None, 1, 10, 7], {"dibs_job_pending", "dibs_document_pkey"}),
    "complete": ([None, ["1"], [1], ["t"], [b""]], {"dibs_name_pkey", "dibs_job_pkey"}),
    "extend": ([None, ["1"], [1], ["t"], [0.5], ["n"]], {"dibs_name_pkey", "dibs_job_pkey"}),
    "write_find": ([None, ["1"]], {"dibs_name_pkey", "dibs_job_pkey", "dibs_lane_pkey"}),
    "write_job": ([[1], ["x"], [1], [1], [1], [1], ["x"], [1], [1], [0.5], ["x"], [b""], [b""]], {"dibs_job_pkey"}),
    "write_keys": ([None, ["u"]], {"dibs_job_unique_key"}),
    "expired": ([None, 100], {"dibs_job_leases", "dibs_job_pkey", "dibs_lane_pkey"}),
    "prune_find": ([0, 100], {"dibs_job_finished", "dibs_lane_pkey|dibs_lane_name"}),
    "peek": (
        [None, None, None, 1, *NO_PLACES],
        {"dibs_job_pending", "dibs_lane_pkey|dibs_lane_name", "dibs_document_pkey"},
    ),
    "job_by_id": ([["1"]], {"dibs_name_pkey", "dibs_job_pkey", "dibs_lane_pkey"}),
    "job_by_seq": ([[1]], {"dibs_job_pkey", "dibs_lane_pkey"}),
    "job_page": ([0, 100], {"dibs_job_pkey", "dibs_lane_pkey"}),
    "log_head": (["1"], {"dibs_name_pkey", "dibs_job_pkey"}),
    "log_page": ([[1]], {"dibs_job_pkey", "dibs_event_pkey"}),
    "count": ([None, None, 100], {"dibs_job_pending", "dibs_job_leases", "dibs_job_finished"}),
    "document_put": ([None, "n", b"", None], set()),
    "document_prune": ([0, 100], {"dibs_document_expires", "dibs_document_pkey"}),
    "insert": (
        [None, "1s", *[[1]] * 2, ["x"], *[[1]] * 5, *[["x"]] * 3, *[[b""]] * 2],
        {"dibs_name_pkey", "dibs_job_idempotency_key", "dibs_job_unique_key", "dibs_lane_pkey"},
    ),
    "insert_named": (
        [["1"], ["k"], ["u"]],
        {"dibs_name_pkey", "dibs_job_idempotency_key", "dibs_job_unique_key", "dibs_lane_pkey"},
    ),
    "insert_tag": ([["1"], ["t"]], {"dibs_name_pkey"}),
    "lane_find": ([["q"], ["t"], [0]], {"dibs_lane_name"}),
    "lane_lock": ([0, 100], {"dibs_lane_pkey", "dibs_job_pending", "dibs_job_finished", "dibs_job_leases"}),
    "lane_remove": ([[1]], {"dibs_lane_pkey", "dibs_job_pending", "dibs_job_finished", "dibs_job_leases"}),
    "restore": (
        [[1], [1], *[["x"]] * 2, *[[1]] * 10, ["x"], *[[1]] * 3, ["x"], *[[1]] * 3, *[["x"]] * 4, *[[b""]] * 4],
        {"dibs_lane_pkey"},
    ),
    "remove_job": ([[1], ["t"], [1]], {"dibs_job_pkey", "dibs_name_pkey", "dibs_event_pkey", "dibs_tag_pkey"}),
    "tombstone_page": (["", 100], {"dibs_tombstone_pkey", "dibs_name_pkey"}),
    "tombstone_prune": ([0, 100], {"dibs_tombstone_at", "dibs_tombstone_pkey"}),
}

WALK_ALL_CLAIMS = {"count", "lane_lock", "lane_remove"}
"""Once, and say so."""


def literal(value: Any) -> str:
    """Write a value without a type: PostgreSQL knows which one it needs."""
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return "'{" + ", ".join(inside(each) for each in value) + "}'"
    return f"'{value}'"


def inside(value: Any) -> str:
    if value is None:
        return "NULL"
    return f'"{value.decode() if isinstance(value, bytes) else value}"'


async def plan(connection: asyncpg.Connection, sql: str, bindings: list[Any]) -> str:
    """Explain the plan that is made once and kept."""
    await connection.execute(f"DEALLOCATE ALL; PREPARE asked AS {sql}")
    given = ", ".join(map(literal, bindings))
    return "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN EXECUTE asked({given})"))


@pytest.fixture(
    params=["empty", "known to be empty", "known to hold one", "without statistics", "with statistics", "emptied"]
)
async def connection(url: str, request: pytest.FixtureRequest) -> AsyncIterator[asyncpg.Connection]:
    """Connect as a store does, to tables that are as new, or of which the server knows something."""
    connection = await asyncpg.connect(url, server_settings=PLANS, statement_cache_size=0)
    await connection.execute(f"ALTER TABLE dibs_job SET (autovacuum_enabled = off); TRUNCATE {TABLES} RESTART IDENTITY")
    if request.param not in {"empty", "known to be empty"}:
        await fill(connection, 1 if request.param == "known to hold one" else MANY)
    if request.param == "emptied":  # its indexes' pages and what was known of the others are left
        await connection.execute("ANALYZE")
        await connection.execute("TRUNCATE dibs_job")
    if request.param not in {"empty", "without statistics"}:
        await connection.execute(f"VACUUM (ANALYZE) {'dibs_job' if request.param == 'emptied' else TABLES}")
        known = {"known to be empty": 0, "known to hold one": 1, "with statistics": MANY, "emptied": 0}[request.param]
        assert known == await connection.fetchval("SELECT reltuples FROM pg_class WHERE oid = 'dibs_job'::regclass")
    yield connection
    await connection.execute("ALTER TABLE dibs_job RESET (autovacuum_enabled)")
    await connection.close()


async def fill(connection: asyncpg.Connection, many: int) -> None:
    await connection.execute(f"""
    INSERT INTO dibs_lane (queue, task, priority) SELECT 'q', 't' || n, 0 FROM generate_series(1, {LANES}) AS n;
    INSERT INTO dibs_job (lane, id, due, first_due, created, updated, max_attempts, lease, kept, terms, params,
      status, expires, lease_expires, fence, token)
    SELECT 1 + n % {LANES}, n::text, n, n, n, n, 3, 1, 1, '', '',
      (ARRAY['pending', 'claimed', 'completed', 'failed'])[1 + n % 4],
      CASE WHEN n % 4 >= 2 THEN n END, CASE WHEN n % 4 = 1 THEN n END, 1, 't'
    FROM generate_series(1, {many}) AS n;
    INSERT INTO dibs_name (id, job) SELECT id, seq FROM dibs_job;
    INSERT INTO dibs_event (job, n, event, at, due, fence, attempts)
    SELECT n, 2, 'claimed', n, n, 1, 0 FROM generate_series(1, {many}) AS n;
    """)


@pytest.mark.parametrize("name", HOT)
async def test_a_hot_statement_uses_its_indexes(connection: asyncpg.Connection, name: str) -> None:
    bindings, indexes = HOT[name]
    text = await plan(connection, statement(name), bindings)

    aimless = re.findall(r"Index (?:Only )?Scan .*using (\w+) on dibs_(?!lane\b).*\n(?!\s+Index Cond)", text)
    assert aimless == ["dibs_job_leases"] * (name in WALK_ALL_CLAIMS), text
    used = set(re.findall(r"(?:using|on) (dibs_\w+?)(?: on|$| )", text, re.MULTILINE))
    assert not re.findall(r"Seq Scan on dibs_(?!clock|lane)\w+", text), text
    assert not [index for index in indexes if not used & set(index.split("|"))], text


async def test_a_claim_neither_sorts_nor_filters_what_waits(connection: asyncpg.Connection) -> None:
    text = await plan(connection, statement("claim"), HOT["claim"][0])

    walks = re.findall(r"Index .*dibs_job_pending on dibs_job .*\n\s+Index Cond: (.*)", text)
    assert len(walks) == 3
    assert re.search(r"Tid Scan on dibs_job .*\n\s+TID Cond: .*\bleased\.ctid\b", text)  # what was locked, where it is
    assert all("lane = " in walk and "due <= " in walk and "ROW(" in walk for walk in walks), text


@pytest.mark.parametrize("query", [
    Query(), Query(oldest_first=True, cursor=7), Query(batch_id="b"), Query(status=(Status.FAILED,)),
    Query(queue="q", task="t", q="x", cursor=9),
])  # fmt: skip
async def test_find_does_not_sort(connection: asyncpg.Connection, query: Query) -> None:
    sql, bindings = finding.compose(query, few_pending=False)

    text = await plan(connection, sql, bindings)
    assert "Sort" not in text
    assert query.batch_id is None or "dibs_job_batch" in text


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
