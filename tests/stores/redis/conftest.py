"""A store on an empty database, with a clock that the tests move; and a bare connection beside it."""

from collections.abc import AsyncIterator, Iterator

import pytest
import redis

from dibs.clock import Clock, FakeClock
from dibs.stores.redis import RedisStore
from tests.servers.databases import empty_redis


@pytest.fixture
def url() -> str:
    return empty_redis()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store(url: str, clock: FakeClock) -> AsyncIterator[RedisStore]:
    store = RedisStore(url, clock)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def real(url: str) -> AsyncIterator[RedisStore]:
    store = RedisStore(url, Clock())
    yield store
    await store.close()


@pytest.fixture
def own(url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(url) as client:
        yield client
