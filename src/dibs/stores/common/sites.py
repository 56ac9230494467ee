"""What a store has of each event loop: its connections, as they belong to the loop that made them."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from dibs.domain.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable


class Site(Protocol):
    """One event loop's part of a store."""

    async def close(self) -> None:
        """Let go of all connections; called on its loop."""

    def terminate(self) -> None:
        """Cut all connections, without waiting."""


class Resident(ABC):
    """A site that ends with its loop, if no one has closed it before."""

    def __init__(self) -> None:
        self._closing = self._ending = False
        self._end = self._until_the_loop_ends()

    async def stay(self) -> None:
        """See that the loop's end is ours too. To be called once."""
        await anext(self._end)

    async def _until_the_loop_ends(self) -> AsyncGenerator[None, None]:
        """Close with the loop: it ends its asynchronous generators, and this is one, which waits for that."""
        try:
            yield
        finally:
            self._ending = True
            await self.close()

    async def close(self) -> None:
        """Let go of all connections, once."""
        if self._closing:
            return
        self._closing = True
        await self.let_go()
        if not self._ending:  # unless it is what closes us
            await self._end.aclose()
        await asyncio.sleep(0)  # a connection that was cut is closed in the next turn of the loop

    @abstractmethod
    async def let_go(self) -> None:
        """Send what is still to be sent, and let go of all connections."""


S = TypeVar("S", bound=Site)


class Sites(Generic[S]):
    """A store's sites, in the process that made it and in no other: a connection does not survive a fork."""

    def __init__(self, name: str, make: Callable[[], S]) -> None:
        self._name, self._make = name, make
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._sites: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, S] = weakref.WeakKeyDictionary()

    def here(self) -> S:
        """Give the site of the loop that is running."""
        if self._pid != os.getpid():
            raise StoreUnavailable(
                f"{self._name} was opened before this process was forked off",
                hint="Open a store of its own in each process.",
            )
        loop = asyncio.get_running_loop()
        with self._lock:
            site = self._sites.get(loop)
            if site is None:
                site = self._sites[loop] = self._make()
            return site

    async def close(self, wake: Callable[[], None]) -> None:
        """Wake those who wait, and let go of everything. In a process that was forked off there is nothing to do."""
        if self._pid != os.getpid():
            return
        here = asyncio.get_running_loop()
        with self._lock:
            sites = dict(self._sites)
            self._sites.clear()
        wake()
        for loop, site in sites.items():
            if loop is here:
                await site.close()
            else:
                with suppress(RuntimeError):  # the loop was closed, and its connections with it
                    loop.call_soon_threadsafe(site.terminate)
