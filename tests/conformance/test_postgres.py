"""The PostgreSQL store keeps every promise of a store."""

import pytest
from hypothesis.stateful import run_state_machine_as_test

from dibs.clock import FakeClock
from dibs.store import Store
from dibs.stores.postgres import PostgresStore
from dibs.testing.conformance import SharedStoreSuite, StoreSuite, state_machine
from tests.servers.databases import empty_postgres


@pytest.fixture
def url() -> str:
    return empty_postgres()


class TestPostgresStore(StoreSuite):
    @pytest.fixture
    def subject(self, clock: FakeClock, url: str) -> Store:
        return PostgresStore(url, clock)


class TestSharedPostgresStore(SharedStoreSuite):
    @pytest.fixture
    def subject(self, clock: FakeClock, url: str) -> Store:
        return PostgresStore(url, clock)

    @pytest.fixture
    def second_subject(self, second_clock: FakeClock, url: str) -> Store:
        return PostgresStore(url, second_clock)


@pytest.mark.timeout(600)  # a difference takes a while to be boiled down
def test_state_machine() -> None:
    run_state_machine_as_test(state_machine(lambda clock: PostgresStore(empty_postgres(), clock), examples=50))
