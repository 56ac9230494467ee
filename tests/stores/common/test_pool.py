"""The pool of connections, with a real server's."""

import asyncio

import pytest

from dibs.stores.common.pool import Pool
from dibs.stores.redis import address
from dibs.stores.redis.link import Link
from tests.servers.databases import empty_redis


async def test_what_is_opened_as_a_pool_ends_is_closed() -> None:
    """It is used once, and no one would look after it then."""
    where, opened, go_on = address.read(empty_redis()), list[Link](), asyncio.Event()

    async def connect() -> Link:
        await go_on.wait()
        opened.append(await Link.connect(where))
        return opened[-1]

    pool = Pool(connect, 2)

    async def use() -> None:
        async with pool.connection() as link:
            assert await link.call(b"PING") == b"PONG"

    using = asyncio.ensure_future(use())
    await asyncio.sleep(0)
    pool.terminate()
    go_on.set()
    await using
    assert [link.is_closed() for link in opened] == [True]


async def test_a_cancellation_that_no_one_asked_for_is_a_failure() -> None:
    """A driver's own, of a time limit: whoever called is not cancelled by that."""

    async def connect() -> Link:
        inner = asyncio.ensure_future(asyncio.sleep(60))
        asyncio.get_running_loop().call_soon(inner.cancel)
        await inner
        raise AssertionError

    pool = Pool(connect, 1)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            async with pool.connection():
                pass


async def test_a_cancellation_that_was_asked_for_is_one() -> None:
    async def connect() -> Link:
        await asyncio.sleep(60)
        raise AssertionError

    pool = Pool(connect, 1)

    async def use() -> None:
        async with pool.connection():
            pass

    using = asyncio.ensure_future(use())
    await asyncio.sleep(0)
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using
