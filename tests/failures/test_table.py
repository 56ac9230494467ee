"""No class of failures is without a test on a store where it can happen; and what the table is made of is right."""

import pytest

from tests.failures.classes import FAILURES, Failure
from tests.failures.collecting import Found, collect
from tests.failures.stores import STORES, store_of
from tests.mistakes.table import MISTAKES

ELSEWHERE = {"audit", "double claim", "paused queues that run"}
"""Kinds of planted mistakes that no one has reported yet."""


@pytest.mark.timeout(180)  # collecting takes some seconds of a core for itself
def test_every_failure_is_provoked_on_every_store_where_it_can_happen() -> None:
    assert collect().holes() == []


def test_a_hole_is_found() -> None:
    found = Found({"tests/a.py::test_a": {"defined": "tests/a.py", "stores": ["redis"]}})
    everywhere = dict.fromkeys(STORES, "why not")
    elsewhere = {name: why for name, why in everywhere.items() if name != "redis"}
    assert found.holes([Failure("a", "", "", ("tests/a.py::test_a",), elsewhere)]) == []
    assert found.holes([Failure("b", "", "", ("tests/a.py::test_b",), everywhere)]) == [
        "b: tests/a.py::test_b does not run on any store"
    ]
    assert found.holes([Failure("c", "", "", ("tests/a.py::test_a",), everywhere)]) == [
        "c: cannot happen on Redis, but is provoked there"
    ]
    fewer = {name: why for name, why in elsewhere.items() if name != "http"}
    assert found.holes([Failure("d", "", "", ("tests/a.py::test_a",), fewer)]) == ["d: nothing provokes it on HTTP"]


@pytest.mark.parametrize(
    ("node", "store"),
    [
        ("tests/broker/test_mysql.py::TestMysqlBroker::test_settle[complete]", "mariadb"),
        ("tests/stores/redis/cluster/test_nodes.py::test_moves[redis]", "cluster"),
        ("tests/server/test_auth.py::test_scopes[sqlite]", "http"),
        ("tests/worker/test_everywhere.py::test_crashes[served]", "http"),
        ("tests/faults/test_faults.py::test_work_goes_on[postgresql-reset]", "postgresql"),
        ("tests/races/test_hammer.py::test_hammer", "sqlite"),
        ("tests/races/test_hammer.py::test_hammer_postgres", "postgresql"),
        ("tests/chaos/test_stopped.py::test_blocks_in_memory[burn]", "memory"),
        ("tests/unit/test_clock.py::test_a_clock", None),
    ],
)
def test_a_test_says_on_which_store_it_runs(node: str, store: str | None) -> None:
    assert store_of(node) == store


def test_mistakes_of_each_kind_are_planted() -> None:
    assert {mistake.kind for mistake in MISTAKES.values()} == {failure.name for failure in FAILURES} | ELSEWHERE
