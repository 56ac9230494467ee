"""Every hot statement walks an index and nothing else: no scan, no sorting, whatever SQLite knows about the tables."""

import re
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from dibs.domain.job import Query, Status
from dibs.stores.sqlite import finding, migrate
from dibs.stores.sqlite.statements import statement

PENDING = "SEARCH dibs_job USING COVERING INDEX dibs_job_pending (lane=?)"
QUIET = re.compile(
    r"json_each|SCAN (asked|gone|picked) |CONSTANT ROW|LIST SUBQUERY|SCALAR SUBQUERY|BLOOM|CO-ROUTINE|SCAN .subq"
)
ONE_JOB = "SEARCH dibs_job USING INTEGER PRIMARY KEY (rowid=?)"
WHOLE = ["SEARCH job USING INTEGER PRIMARY KEY (rowid=?)", "SEARCH payload USING INTEGER PRIMARY KEY (rowid=?)"]

HOT = {
    "clock_read": ["SEARCH dibs_clock USING INTEGER PRIMARY KEY (rowid=?)"],
    "clock_write": ["SEARCH dibs_clock USING INTEGER PRIMARY KEY (rowid=?)"],
    "lane_find": ["SEARCH dibs_lane USING INDEX dibs_lane_name (queue=? AND task=? AND priority=?)"],
    "lane_due": ["SCAN dibs_lane USING COVERING INDEX dibs_lane_due"],  # best first, and ends when there is enough
    "lane_due_asc": ["SCAN dibs_lane USING COVERING INDEX dibs_lane_due"],
    "lane_due_of": ["SEARCH dibs_lane USING INDEX dibs_lane_name (queue=?)"],
    "lane_waiting": ["SCAN dibs_lane USING COVERING INDEX dibs_lane_due"],  # lanes in which something waits, no others
    "lane_waiting_of": ["SEARCH dibs_lane USING INDEX dibs_lane_name (queue=?)"],
    "claim_pick": [PENDING],
    "claim_pick_left": ["SEARCH dibs_job USING INDEX dibs_job_pending (lane=?)"],
    "claim_find": ["SEARCH dibs_job USING INDEX sqlite_autoindex_dibs_job_1 (id=?)"],
    "claim_take": [ONE_JOB],
    "claim_log": [ONE_JOB],
    "complete_take": [ONE_JOB],
    "complete_log": [ONE_JOB],
    "job_by_seq": WHOLE,
    "job_by_id": ["SEARCH job USING INDEX sqlite_autoindex_dibs_job_1 (id=?)", WHOLE[1]],
    "job_by_key": ["SEARCH job USING INDEX dibs_job_idempotency_key (idempotency_key=?)", WHOLE[1]],
    "job_by_unique": ["SEARCH job USING INDEX dibs_job_unique_key (unique_key=?)", WHOLE[1]],
    "job_ids": ["SEARCH dibs_job USING COVERING INDEX sqlite_autoindex_dibs_job_1 (id=?)"],
    "write_job": [ONE_JOB],
    "write_unique": ["SEARCH dibs_job USING INDEX dibs_job_unique_key (unique_key=?)"],
    "extend_find": ["SEARCH job USING INDEX sqlite_autoindex_dibs_job_1 (id=?)"],
    "extend_write": [ONE_JOB],
    "expired": ["SEARCH dibs_job USING COVERING INDEX dibs_job_leases (lease_expires<?)", "SCAN late", *WHOLE],
    "prune_due": WHOLE,
    "claim_read": WHOLE,
    "complete_find": ["SEARCH dibs_job USING COVERING INDEX sqlite_autoindex_dibs_job_1 (id=?)"],
    "complete_taken": [
        "SEARCH job USING INTEGER PRIMARY KEY (rowid=?)",
        "SEARCH dibs_event USING INTEGER PRIMARY KEY (rowid=?)",
    ],
    "remove_events": [
        "SEARCH dibs_event USING INTEGER PRIMARY KEY (rowid=?)",
        "SEARCH event USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
    ],
    "log_page": ["SEARCH event USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)", "USE TEMP B-TREE FOR ORDER BY"],
    "count_pending": [
        "SEARCH dibs_job USING COVERING INDEX dibs_job_pending (lane=? AND due<?)",
        "SEARCH dibs_job USING COVERING INDEX dibs_job_pending (lane=? AND due>?)",
        "SEARCH dibs_job USING COVERING INDEX dibs_job_pending (lane=? AND due<?)",
    ],
    "count_finished": ["SEARCH dibs_job USING COVERING INDEX dibs_job_finished (lane=? AND status=? AND expires>?)"],
    "tombstone_prune": [
        "SEARCH dibs_tombstone USING PRIMARY KEY (id=?)",
        "SEARCH dibs_tombstone USING COVERING INDEX dibs_tombstone_at (at<?)",
    ],
}


@pytest.fixture(params=["new", "analysed"])
def connection(request: pytest.FixtureRequest, path: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(path))
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    migrate.migrate(connection, str(path), 0)
    if request.param == "analysed":  # by someone who looks after their own tables in the file
        fill(connection)
        connection.execute("ANALYZE")
    yield connection
    connection.close()


def fill(connection: apsw.Connection) -> None:
    with connection:
        connection.executemany(
            statement("lane_add"), [(f"q{number}", "task", number % 3, number) for number in range(20)]
        )
        jobs = [(n, f"job-{n}", n % 20 + 1, n, 3, 1, 1, 1, None, None, None) for n in range(1, 2001)]
        connection.executemany(statement("insert_job"), jobs)
        connection.executemany(statement("insert_payload"), [(n, 1, b"{}", b"{}") for n in range(1, 2001)])
        connection.execute("UPDATE dibs_job SET status = 'completed', expires = seq WHERE seq % 2")


def plan(connection: apsw.Connection, sql: str, bindings: object = None) -> list[str]:
    found = connection.execute("EXPLAIN QUERY PLAN " + sql, bindings or [None] * places(sql))  # type: ignore[arg-type]
    steps = [detail for *_, detail in found]
    return [step for step in steps if not QUIET.search(step)]


def places(sql: str) -> int:
    numbered = [int(number) for number in re.findall(r"\?(\d+)", sql)]
    return max([0, *numbered]) + len(re.findall(r"\?(?!\d)", sql))


@pytest.mark.parametrize("name", HOT)
def test_a_hot_statement_walks_an_index(connection: apsw.Connection, name: str) -> None:
    assert plan(connection, statement(name)) == HOT[name]


def test_prune_seeks_lane_by_lane(connection: apsw.Connection) -> None:
    steps = plan(connection, statement("prune_find"))

    assert "SEARCH job USING COVERING INDEX dibs_job_finished (lane=? AND status=? AND expires<?)" in steps
    assert not [step for step in steps if "SCAN job" in step]


@pytest.mark.parametrize("query", [
    Query(), Query(oldest_first=True, cursor=7), Query(batch_id="b"), Query(tag="t"), Query(status=(Status.FAILED,)),
    Query(queue="q", task="t", q="x", cursor=9),
])  # fmt: skip
def test_find_does_not_sort(connection: apsw.Connection, query: Query) -> None:
    sql, bindings = finding.compose(query, few_pending=False)

    assert not [step for step in plan(connection, sql, bindings) if "TEMP B-TREE" in step]


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
