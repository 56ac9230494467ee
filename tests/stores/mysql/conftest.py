"""A store on an empty database, with a clock that the tests move; and a bare connection beside it."""

from collections.abc import AsyncIterator
from typing import Any

import asyncmy
import pytest

from dibs.clock import Clock, FakeClock
from dibs.stores.mysql import MysqlStore, address
from tests.servers.databases import empty_mysql


class Own:
    """A user's connection: its statements, and the driver's own object."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def run(self, sql: str) -> list[Any]:
        async with self.connection.cursor() as cursor:
            await cursor.execute(sql)
            return list(await cursor.fetchall())

    async def value(self, sql: str) -> Any:
        return (await self.run(sql))[0][0]


async def connected(url: str, **options: Any) -> Own:
    read = address.read(url)
    return Own(
        await asyncmy.connect(
            host=read.host, port=read.port, user=read.user, password=read.password, database=read.database, **options
        )
    )


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
    await own.connection.ensure_closed()
