"""The pool of connections, with a real server's."""

import asyncio
import time

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


class Few:
    """Connections of a real server that are counted as they are opened, or as that is tried."""

    def __init__(self) -> None:
        self._where = address.read(empty_redis())
        self.opened = list[Link]()
        self.tried = 0
        self.away = False

    async def connect(self) -> Link:
        self.tried += 1
        await asyncio.sleep(0.01)
        if self.away:
            raise ConnectionRefusedError
        self.opened.append(await Link.connect(self._where))
        return self.opened[-1]


@pytest.fixture
def few() -> Few:
    return Few()


async def ping(pool: Pool[Link]) -> None:
    async with pool.connection() as link:
        assert await link.call(b"PING") == b"PONG"


async def keep(pool: Pool[Link], over: asyncio.Event) -> None:
    async with pool.connection():
        await over.wait()


async def test_those_who_begin_together_share_the_first_connection(few: Few) -> None:
    pool = Pool(few.connect, 10)
    await asyncio.gather(*(ping(pool) for _ in range(5)))
    assert few.tried == 1
    await pool.close()


async def test_a_first_connection_that_is_kept_keeps_no_one_else_waiting(few: Few) -> None:
    pool, over = Pool(few.connect, 10), asyncio.Event()
    keeping = [asyncio.ensure_future(keep(pool, over)) for _ in range(5)]
    async with asyncio.timeout(10):
        await ping(pool)
        while len(few.opened) < 5:  # noqa: ASYNC110 - it is opened by others
            await asyncio.sleep(0.01)
    over.set()
    await asyncio.gather(*keeping)
    await pool.close()


async def test_calls_that_are_short_wait_for_one_another_rather_than_open_more(few: Few) -> None:
    pool = Pool(few.connect, 10)
    await ping(pool)
    await asyncio.gather(*(ping(pool) for _ in range(5)))
    assert few.tried == 1
    await pool.close()


async def test_where_there_is_always_someone_who_waits_another_is_opened(few: Few) -> None:
    """However short each wait is: claims and settles of a busy worker are not to go one after the other for ever."""
    pool = Pool(few.connect, 10)

    async def work() -> None:
        while few.tried < 2:
            await ping(pool)

    async with asyncio.timeout(20):
        await asyncio.gather(work(), work())
    await pool.close()


async def test_who_waits_while_the_second_is_opened_does_not_wait_for_the_first(few: Few) -> None:
    """What was open is gone by then, so there is none to wait for but those that are being opened."""
    pool, over = Pool(few.connect, 3), asyncio.Event()
    first = await pool.acquire()
    keeping = [asyncio.ensure_future(keep(pool, over)) for _ in range(2)]
    while few.tried < 3:  # noqa: ASYNC110 - it is tried by others
        await asyncio.sleep(0.001)
    first.terminate()
    pool.release(first, None)
    async with asyncio.timeout(10):
        await ping(pool)
    over.set()
    await asyncio.gather(*keeping)
    await pool.close()


async def test_that_much_has_been_waited_is_worth_one_more_and_not_one_for_each(few: Few) -> None:
    pool = Pool(few.connect, 10)
    held = await pool.acquire()
    pool._waited, pool._waited_at = 60.0, time.monotonic()
    coming = [asyncio.ensure_future(ping(pool)) for _ in range(5)]
    await asyncio.sleep(0)
    assert few.tried == 2
    pool.release(held, None)
    await asyncio.gather(*coming)
    await pool.close()


async def test_where_each_is_used_for_long_none_is_waited_for(few: Few) -> None:
    """A long poll keeps its own for half a minute: who comes next would wait for it in vain."""
    pool = Pool(few.connect, 10, worth=0.0)
    held = await pool.acquire()
    coming = asyncio.ensure_future(ping(pool))
    await asyncio.sleep(0)
    assert few.tried == 2
    await coming
    pool.release(held, None)
    await pool.close()


async def test_a_first_connection_that_fails_is_tried_once_for_all(few: Few) -> None:
    pool = Pool(few.connect, 10)
    few.away = True
    failed = await asyncio.gather(*(ping(pool) for _ in range(5)), return_exceptions=True)
    assert [type(error) for error in failed] == [ConnectionRefusedError] * 5
    assert few.tried == 1
    few.away = False
    await ping(pool)
    await pool.close()


async def test_a_first_connection_whose_caller_gives_up_is_tried_by_the_next(few: Few) -> None:
    pool = Pool(few.connect, 10)
    first, second = asyncio.ensure_future(ping(pool)), asyncio.ensure_future(ping(pool))
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert few.tried == 2
    await pool.close()


async def test_what_no_one_needs_is_closed(few: Few, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool(few.connect, 10)
    held = [await pool.acquire() for _ in range(5)]
    for link in held:
        pool.release(link, None)
    monkeypatch.setattr("dibs.stores.common.pool.IDLE", -1.0)
    for _ in range(4):
        await ping(pool)
    monkeypatch.undo()
    async with asyncio.timeout(10):
        while sum(link.is_closed() for link in few.opened) < 4:  # noqa: ASYNC110 - it is closed by and by
            await asyncio.sleep(0.01)
    await ping(pool)
    assert (few.tried, sum(link.is_closed() for link in few.opened)) == (5, 4)
    await pool.close()


async def test_who_asks_again_at_once_stands_behind_those_who_wait(few: Few) -> None:
    """Who has just given one back would else have it before any of them had had a turn, again and again."""
    pool, served = Pool(few.connect, 2), list[int]()

    async def work(number: int) -> None:
        for _ in range(20):
            await ping(pool)
            served.append(number)

    await asyncio.gather(*(work(number) for number in range(6)))
    for at in range(0, len(served), 6):
        assert max(served[: at + 6].count(number) for number in range(6)) <= at // 6 + 2
    await pool.close()


async def test_what_is_handed_to_one_who_has_left_is_handed_on(few: Few) -> None:
    pool = Pool(few.connect, 1)
    held = await pool.acquire()
    first, second = asyncio.ensure_future(pool.acquire()), asyncio.ensure_future(pool.acquire())
    await asyncio.sleep(0)
    pool.release(held, None)  # into the hands of the first
    first.cancel()
    async with asyncio.timeout(10):
        assert await second is held
    pool.release(held, None)
    await pool.close()


async def test_what_is_cut_as_it_is_handed_over_is_replaced(few: Few) -> None:
    pool = Pool(few.connect, 1)
    held = await pool.acquire()
    coming = asyncio.ensure_future(ping(pool))
    await asyncio.sleep(0)
    pool.release(held, None)
    pool.cut(lambda link: link is held)
    async with asyncio.timeout(10):
        await coming
    assert (held.is_closed(), few.tried) == (True, 2)
    await pool.close()


async def test_what_is_handed_over_as_a_pool_ends_is_closed(few: Few) -> None:
    pool = Pool(few.connect, 1)
    held = await pool.acquire()
    coming = asyncio.ensure_future(ping(pool))
    await asyncio.sleep(0)
    pool.release(held, None)
    pool.terminate()
    await asyncio.gather(coming, return_exceptions=True)
    assert all(link.is_closed() for link in few.opened)
