"""What one event loop has of a store: its connections, its listener, and the hints that it sends."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

from redis.exceptions import NoScriptError

from dibs.domain.errors import DibsError
from dibs.stores.common.pool import Pool
from dibs.stores.redis.errors import FAILURES, translate
from dibs.stores.redis.link import Link
from dibs.stores.redis.wake import Listener

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable

    from dibs.stores.common.herald import Herald
    from dibs.stores.common.waiting import Name, Waiting
    from dibs.stores.redis.address import Address
    from dibs.stores.redis.keys import Shard
    from dibs.stores.redis.scripts import Script

logger = logging.getLogger("dibs")

T = TypeVar("T")


class Site:
    """One event loop's part of a store."""

    def __init__(
        self, address: Address, shard: Shard, told: Callable[[], int | None], waiting: Waiting, herald: Herald
    ) -> None:
        self.address, self.shard = address, shard
        self.pool: Pool[Link] = Pool(lambda: Link.connect(address), address.pool)
        self._told, self._waiting, self._herald = told, waiting, herald
        self._heads: dict[str, tuple[Any, ...]] = {}
        self._listener = Listener(address, shard.key("news"), self._hear)
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._begun = self._closed = self._ending = False
        self._end = self._until_the_loop_ends()

    # Scripts

    async def run(self, script: Script, *words: Any) -> Any:
        """Run a script: by its name, or whole if the server does not know it (any more)."""
        if not self._begun:
            self._begun = True
            await anext(self._end)
        head = self._heads.get(script.name)
        if head is None:
            keys = script.keys(self.shard)
            head = self._heads[script.name] = (b"EVALSHA", script.sha, len(keys), *keys)
        try:
            async with self.pool.connection() as link:
                try:
                    return await link.call(*head, *words)
                except NoScriptError:
                    return await link.call(b"EVAL", script.text, *head[2:], *words)
        except FAILURES as error:
            raise translate(error, self.address.name) from error

    async def command(self, *words: Any) -> Any:
        """Run a command that is no script."""
        try:
            async with self.pool.connection() as link:
                return await link.call(*words)
        except FAILURES as error:
            raise translate(error, self.address.name) from error

    @property
    def told(self) -> bytes:
        """What to tell a script about the time: nothing, unless a test has put its own clock in place."""
        now = self._told()
        return b"" if now is None else b"%d" % now

    # Hints

    async def announce(self, news: Iterable[Name] | None, run: Callable[[str], Awaitable[T]]) -> T:
        """Run what makes jobs pending, and tell of it: here, and in other processes.

        The script itself tells them; if that was just done, they are told within a moment instead.
        """
        hint = self._herald.now(news) or ""
        try:
            answer = await run(hint)
        except BaseException:
            self._publish_soon(hint)  # it may be about other jobs than these
            raise
        self._waiting.tell(news)
        if not hint:
            payload, seconds = self._herald.pick(news)
            self._publish_soon(payload or "")
            if seconds is not None:
                self._timer = asyncio.get_running_loop().call_later(seconds, self._send_rest)
        return answer

    def _send_rest(self) -> None:
        self._timer = None
        self._publish_soon(self._herald.rest() or "")

    def _publish_soon(self, payload: str) -> None:
        """Tell other processes by itself what no script has told them."""
        if payload and not self._closed:
            task = asyncio.get_running_loop().create_task(self._publish(payload))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _publish(self, payload: str) -> None:
        try:
            await self.command(b"SPUBLISH", self.shard.key("news"), payload)
        except DibsError as error:
            logger.debug("could not tell other processes what has come in: %s", error)

    def _hear(self, payload: str | None) -> None:
        """Pass on what others say; none: something may have been missed."""
        elsewhere, names = (True, None) if payload is None else self._herald.read(payload)
        if elsewhere:
            self._waiting.tell(names)

    def listening(self) -> bool:
        """Say whether hints of other processes are heard on this loop, and see to it."""
        return not self._closed and self._listener.listening()

    # The end

    async def _until_the_loop_ends(self) -> AsyncGenerator[None, None]:
        """Close with the loop: it ends its asynchronous generators, and this is one, which waits for that."""
        try:
            yield
        finally:
            self._ending = True
            await self.close()

    async def close(self) -> None:
        """Send what is still to be sent, and let go of all connections."""
        if self._closed:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._send_rest()
        self._closed = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)
        await self._listener.close()
        await self.pool.close()
        if not self._ending:  # unless it is what closes us
            await self._end.aclose()
        await asyncio.sleep(0)  # a connection that was cut is closed in the next turn of the loop

    def terminate(self) -> None:
        """Cut all connections, without waiting."""
        self._closed = True
        self._listener.terminate()
        self.pool.terminate()
