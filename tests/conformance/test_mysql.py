"""The MySQL store keeps every promise of a store, on MariaDB."""

import pytest
from hypothesis.stateful import run_state_machine_as_test

from dibs.clock import FakeClock
from dibs.store import Store
from dibs.stores.mysql import MysqlStore
from dibs.testing.conformance import SharedStoreSuite, StoreSuite, state_machine
from tests.servers.databases import empty_mysql


@pytest.fixture
def url() -> str:
    return empty_mysql()


class TestMysqlStore(StoreSuite):
    @pytest.fixture
    def subject(self, clock: FakeClock, url: str) -> Store:
        return MysqlStore(url, clock)


class TestSharedMysqlStore(SharedStoreSuite):
    @pytest.fixture
    def subject(self, clock: FakeClock, url: str) -> Store:
        return MysqlStore(url, clock)

    @pytest.fixture
    def second_subject(self, second_clock: FakeClock, url: str) -> Store:
        return MysqlStore(url, second_clock)


@pytest.mark.timeout(600)  # a difference takes a while to be boiled down
def test_state_machine() -> None:
    run_state_machine_as_test(state_machine(lambda clock: MysqlStore(empty_mysql(), clock), examples=50))
