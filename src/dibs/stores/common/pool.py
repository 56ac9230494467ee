"""Connections of one event loop: as many as are used at once, kept for the next, and given up at the first doubt.

A server has only so many to give, and a thousand workers that begin at once, or come back at once, want theirs at
once. So another is opened only when those that there are have been waited for, about as long as opening one takes; and
what no one has needed for a while is closed.

One that is given back is handed to whoever has waited for longest. Were it laid down to be taken, a caller that asks
again at once would have it before those who wait have had a turn.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from dibs.stores.common.connecting import is_asked

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType


IDLE = 30.0
"""Seconds for which one is kept that no one needs: longer than anything that comes again and again takes to come."""


WORTH = 4.0
"""For how many times as long as opening one took one that is used is waited for before another is opened: so fewest are
opened by those who come to a busy server, where both take long."""
TOGETHER = 20.0
"""And for how many times as long by all who have waited, one soon after the other: where there is always someone who
waits, another is worth its price, however short each wait is."""
SOON = 1.0
"""Seconds that lie between waits of which one does not follow soon after the other."""
LONGEST = 1.0
"""Seconds for which one is waited for at the most, while more may be opened."""


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
        self,
        connect: Callable[[], Awaitable[L]],
        most: int,
        broken: Callable[[], None] = lambda: None,
        *,
        worth: float = WORTH,
    ) -> None:
        self._connect, self._most, self._broken, self._worth = connect, most, broken, worth
        self._free: dict[L, float] = {}  # and since when; the last to come is the first to go
        self._used: set[L] = set()
        self._waiting: deque[asyncio.Future[L | Exception | None]] = deque()
        self._open = 0
        self._opening = 0  # of these
        self._took = 0.0  # seconds, to open the last one
        self._waited = 0.0  # seconds, by all since then
        self._waited_at = 0.0
        self._ended = False
        self._leaving: set[asyncio.Task[None]] = set()

    def connection(self) -> Lent[L]:
        """Give a connection for a moment. An error, or a caller who gives up, costs it: no one inherits its state."""
        return Lent(self)

    async def acquire(self) -> L:
        """Give one that is free, or open one, or wait until there is one."""
        until: float | None = None  # when it has been waited for long enough
        while True:
            if (link := self._take()) is not None:
                return link
            now = time.monotonic()
            if until is None and self._open > self._opening:
                until = now if self._is_worth_it(now) else now + min(LONGEST, self._worth * self._took)
            if self._open < self._most and (not self._open or (until is not None and now >= until)):
                return await self._open_one()
            link = await self._turn(None if until is None or self._open >= self._most else until - now)
            if until is not None:
                self._waited_at = time.monotonic()
                self._waited += self._waited_at - now
            if link is not None:
                if not link.is_closed():
                    return link
                # Race: cut since it was handed over (test_what_is_cut_as_it_is_handed_over_is_replaced).
                self._lose(link)

    def _take(self) -> L | None:
        """Take one that is free, and from now on used."""
        while self._free:
            link, _ = self._free.popitem()
            self._used.add(link)
            if not link.is_closed():
                return link
            self._lose(link)
        return None

    def _lose(self, link: L) -> None:
        link.terminate()
        self._used.discard(link)
        self._open -= 1

    def _is_worth_it(self, now: float) -> bool:
        """Say whether so much has been waited of late that there had better be one more."""
        if now - self._waited_at > SOON:
            self._waited = 0.0
        return self._waited > TOGETHER * self._took

    async def _turn(self, seconds: float | None) -> L | None:
        """Wait until one is handed over, or may be opened, so long at the most."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[L | Exception | None] = loop.create_future()
        self._waiting.append(turn)
        timer = None if seconds is None else loop.call_later(seconds, _call, turn)
        try:
            given = await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._hand_on(turn.result())
            raise
        finally:
            if timer is not None:
                timer.cancel()
            with suppress(ValueError):
                self._waiting.remove(turn)
        if isinstance(given, Exception):
            raise given
        return given

    def _hand_on(self, given: L | Exception | None) -> None:
        """Give to the next what someone was given who has left.

        Race: cancelled in the same turn of the loop (test_what_is_handed_to_one_who_has_left_is_handed_on).
        """
        if given is None or isinstance(given, Exception):
            self._wake()
        else:
            self.release(given, None)

    async def _open_one(self) -> L:
        self._open += 1
        self._opening += 1
        self._waited = 0.0  # by this one; it is not to be one more for each who comes while it is opened, or in vain
        began = time.monotonic()
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
        self._took = time.monotonic() - began
        if self._open - self._opening == 1:
            self._wake_all()  # from now on they wait for this one, and no longer than it is worth
        self._used.add(link)
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
            _call(turn, error)

    def _wake(self) -> None:
        """Hand one that is free to whoever has waited for longest; where there is none, one may be opened."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(self._take())
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


def _call(turn: asyncio.Future[Any], error: Exception | None = None) -> None:
    if not turn.done():
        turn.set_result(error)


async def _close(link: Link) -> None:
    with suppress(Exception):
        await link.close()
