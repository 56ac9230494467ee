"""The PostgreSQL store keeps every promise behind a PgBouncer in transaction mode, with ``?listen=no&prepared=no``."""

from collections.abc import Iterator

import pytest

from dibs.clock import FakeClock
from dibs.store import Store
from dibs.stores.postgres import PostgresStore
from dibs.testing.conformance import SharedStoreSuite, StoreSuite
from tests.servers import pgbouncer
from tests.servers.databases import empty_postgres


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with pgbouncer.running(empty_postgres()) as port:
        yield port


@pytest.fixture
def url(port: int) -> str:
    return pgbouncer.through(port, empty_postgres())


@pytest.mark.long
class TestStoreBehindPgBouncer(StoreSuite):
    @pytest.fixture
    def subject(self, clock: FakeClock, url: str) -> Store:
        return PostgresStore(url, clock)


@pytest.mark.long
class TestSharedStoreBehindPgBouncer(SharedStoreSuite):
    @pytest.fixture
    def subject(self, clock: FakeClock, url: str) -> Store:
        return PostgresStore(url, clock)

    @pytest.fixture
    def second_subject(self, second_clock: FakeClock, url: str) -> Store:
        return PostgresStore(url, second_clock)
