"""The SQLite store keeps every promise of a store."""

from itertools import count
from pathlib import Path

import pytest
from hypothesis.stateful import run_state_machine_as_test

from dibs.clock import FakeClock
from dibs.store import Store
from dibs.stores.sqlite import SqliteStore
from dibs.testing.conformance import SharedStoreSuite, StoreSuite, state_machine


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


class TestSqliteStore(StoreSuite):
    @pytest.fixture
    def subject(self, clock: FakeClock, path: Path) -> Store:
        return SqliteStore(path, clock)


class TestSharedSqliteStore(SharedStoreSuite):
    @pytest.fixture
    def subject(self, clock: FakeClock, path: Path) -> Store:
        return SqliteStore(path, clock)

    @pytest.fixture
    def second_subject(self, second_clock: FakeClock, path: Path) -> Store:
        return SqliteStore(path, second_clock)


@pytest.mark.timeout(600)  # a difference takes a while to be boiled down
def test_state_machine(tmp_path: Path) -> None:
    number = count()
    run_state_machine_as_test(state_machine(lambda clock: SqliteStore(tmp_path / f"{next(number)}.db", clock)))
