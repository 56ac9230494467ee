"""A store on an empty database, with a clock that the tests move; and a bare connection beside it."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from dibs.clock import FakeClock
from dibs.stores.postgres import PostgresStore
from tests.servers.databases import empty_postgres


@pytest.fixture
def url() -> str:
    return empty_postgres()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store(url: str, clock: FakeClock) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url, clock)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def own(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()
