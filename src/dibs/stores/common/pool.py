"""Connections of one event loop: as many as are used at once, kept for the next, and given up at the first doubt.

A server has only so many to give, and a thousand workers that begin at once, or come back at once, want theirs at
once. So the first is opened alone, and the others who wait for it may have it in turn, if it is soon free again; and
what no one has needed for a while is closed.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from dibs.stores.common.connecting import is_asked

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType


IDLE = 30.0
"""Seconds for which one is kept that no one needs: longer than anything that comes again and again takes to come."""


SOON = 0.1
"""Seconds for which those who waited for the first connection wait for it to be free, before they open their own."""


class Link(Protocol):
    """What a pool needs to know of a connection."""

    def is_closed(self) -> bool:
        """Say whether it is of no use any more, as far as is known."""
        ...

    def is_sound(self, error: Exception) -> bool:
        """Say whether it is well though a call on it failed, and not in the middle of something."""
        ...

    def terminate(self) -> None:
        """Cut it, without waiting."""

    async def close(self) -> None:
        """Say goodbye."""


L = TypeVar("L", bound=Link)


class Lent(Generic[L]):
    """A connection for as long as a block. A class, as this is on the way of every call: generators would be dearer."""

    __slots__ = ("_link", "_pool")

    def __init__(self, pool: Pool[L]) -> None:
        self._pool = pool
        self._link: L | None = None

    async def __aenter__(self) -> L:
        try:
            link = self._link = await self._pool.acquire()
        except asyncio.CancelledError as error:
            if is_asked():
                raise
            raise TimeoutError from error
        return link

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._link is not None:
            self._pool.release(self._link, error)
        if isinstance(error, asyncio.CancelledError) and not is_asked():
            raise TimeoutError from error


class Pool(Generic[L]):
    """The connections of one event loop."""

    def __init__(
        self, connect: Callable[[], Awaitable[L]], most: int, broken: Callable[[], None] = lambda: None
    ) -> None:
        self._connect, self._most, self._broken = connect, most, broken
        self._free: dict[L, float] = {}  # and since when; the last to come is the first to go
        self._used: set[L] = set()
        self._waiting: deque[asyncio.Future[Exception | None]] = deque()
        self._open = 0
        self._opening = 0  # of these
        self._ended = False
        self._leaving: set[asyncio.Task[None]] = set()

    def connection(self) -> Lent[L]:
        """Give a connection for a moment. An error, or a caller who gives up, costs it: no one inherits its state."""
        return Lent(self)

    async def acquire(self) -> L:
        """Give one that is free, or open one, or wait until there is one."""
        link = await self._next()
        self._used.add(link)
        return link

    async def _next(self) -> L:
        while True:
            while self._free:
                link, _ = self._free.popitem()
                if not link.is_closed():
                    return link
                link.terminate()
                self._open -= 1
            if self._open < self._most and (self._open > self._opening or not self._opening):
                return await self._open_one()
            turn: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                error = await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._wake()
                raise
            finally:
                with suppress(ValueError):
                    self._waiting.remove(turn)
            if error is not None:
                raise error

    async def _open_one(self) -> L:
        self._open += 1
        self._opening += 1
        try:
            link = await self._connect()
        except BaseException as error:
            self._open -= 1
            self._opening -= 1
            if not self._open and isinstance(error, Exception):  # what they waited for is not to be had
                self._wake_all(error)
            self._wake()
            raise
        self._opening -= 1
        if self._waiting:
            asyncio.get_running_loop().call_later(SOON, self._wake_all)
        return link

    def release(self, link: L, error: BaseException | None) -> None:
        """Take one back, after whatever went wrong."""
        self._used.discard(link)
        if isinstance(error, Exception):
            if not link.is_sound(error):
                link.terminate()
                self._drop_free()
                self._broken()
        elif error is not None:
            # Race: a query that was cancelled. Its rows would be read by whoever comes next
            # (test_a_cancelled_claim_leaves_nothing_behind).
            link.terminate()
        if self._ended:  # Race: it was on its way when all were let go (test_what_is_opened_as_a_pool_ends_is_closed)
            link.terminate()
        if link.is_closed():
            self._open -= 1
        else:
            self._free[link] = time.monotonic()
            self._part()
        self._wake()

    def _part(self) -> None:
        """Close the one that has been free for longest, if that is long. There is at least the one that came last."""
        link, since = next(iter(self._free.items()))
        if time.monotonic() - since > IDLE:
            del self._free[link]
            self._open -= 1
            task = asyncio.get_running_loop().create_task(_close(link))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    def _drop_free(self) -> None:
        """Give up the others too: what has hurt one, a network that fell silent or a server that went, has hurt them.

        Each would otherwise be found out by a caller of its own, who waits for it in vain.
        """
        free, self._free = self._free, {}
        self._open -= len(free)
        for link in free:
            link.terminate()

    def cut(self, dead: Callable[[L], bool]) -> None:
        """Cut those that are thought to be dead; who waits for an answer on one is told at once."""
        for link in filter(dead, [*self._free, *self._used]):
            link.terminate()

    def _wake_all(self, error: Exception | None = None) -> None:
        for turn in self._waiting:
            if not turn.done():
                turn.set_result(error)

    def _wake(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    async def close(self) -> None:
        """Close all that are free, and give up on those that are used."""
        free, self._free = self._free, {}
        for link in free:
            await _close(link)
        if self._leaving:
            await asyncio.wait(self._leaving)
        self.terminate()

    def terminate(self) -> None:
        """Cut all, without waiting: also for a loop that has ended. What is opened later is not kept."""
        self._ended = True
        for link in [*self._free, *self._used]:
            with suppress(Exception):
                link.terminate()
        self._free = {}


async def _close(link: Link) -> None:
    with suppress(Exception):
        await link.close()
