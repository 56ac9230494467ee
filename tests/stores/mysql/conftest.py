"""A store on an empty database, with a clock that the tests move; and a bare connection beside it."""

from collections.abc import AsyncIterator

import pytest

from dibs.clock import Clock, FakeClock
from dibs.stores.mysql import MysqlStore
from tests.servers.databases import empty_mysql
from tests.stores.servers.kinds import MysqlOwn as Own
from tests.stores.servers.kinds import connected

__all__ = ["Own", "connected"]


@pytest.fixture
def url() -> str:
    return empty_mysql()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store(url: str, clock: FakeClock) -> AsyncIterator[MysqlStore]:
    store = MysqlStore(url, clock)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def real(url: str) -> AsyncIterator[MysqlStore]:
    store = MysqlStore(url, Clock())
    yield store
    await store.close()


@pytest.fixture
async def own(url: str) -> AsyncIterator[Own]:
    """A connection as users have it: snapshots, and no commit unless they say so."""
    own = await connected(url)
    yield own
    await own.close()
