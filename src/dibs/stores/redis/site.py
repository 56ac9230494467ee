"""What one event loop has of a single server: its connections, its listener, and the hints that it sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from redis.exceptions import NoScriptError

from dibs.stores.common.pool import Pool
from dibs.stores.common.sites import Resident
from dibs.stores.redis.errors import FAILURES, translate
from dibs.stores.redis.hints import Hints
from dibs.stores.redis.link import Link
from dibs.stores.redis.part import Taken
from dibs.stores.redis.wake import Listener

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from dibs.domain.job import Job
    from dibs.stores.common.herald import Herald
    from dibs.stores.common.waiting import Name, Waiting
    from dibs.stores.redis.address import Address
    from dibs.stores.redis.keys import Shard
    from dibs.stores.redis.scripts import Script

T = TypeVar("T")


class Site(Resident):
    """One event loop's part of a store, which is all of it."""

    number = b""

    def __init__(
        self, address: Address, shard: Shard, told: Callable[[], int | None], waiting: Waiting, herald: Herald
    ) -> None:
        super().__init__()
        self.address, self.shard = address, shard
        self.pool: Pool[Link] = Pool(lambda: Link.connect(address), address.pool, self._deafen)
        self._told = told
        self._heads: dict[str, tuple[Any, ...]] = {}
        self._hints = Hints(herald, waiting, lambda payload: self.command(b"SPUBLISH", shard.key("news"), payload))
        self._listener = Listener(address, [shard.key("news")], self._hints.hear)
        self._begun = self._closed = False

    # Scripts

    async def run(self, script: Script, *words: Any) -> Any:
        """Run a script: by its name, or whole if the server does not know it (any more)."""
        if not self._begun:
            self._begun = True
            await self.stay()
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

    # Names: all are in this shard, where scripts look at them

    async def take_keys(self, jobs: Sequence[Job]) -> Taken:
        """Leave it to the script that takes them."""
        del jobs
        return Taken()

    async def leave(self, jobs: Sequence[Job]) -> None:
        """Leave it to the script that removes them."""

    # Hints

    async def announce(self, news: Iterable[Name] | None, run: Callable[[str], Awaitable[T]]) -> T:
        """Run what makes jobs pending, and tell of it: here, and in other processes."""
        return await self._hints.announce(news, run)

    def _deafen(self) -> None:
        """Listen anew: what has broken a connection may have left the listener's open, and dead."""
        self._listener.terminate_link()

    def listening(self) -> bool:
        """Say whether hints of other processes are heard on this loop, and see to it."""
        return not self._closed and self._listener.listening()

    # The end

    async def let_go(self) -> None:
        """Send what is still to be sent, and let go of all connections."""
        await self._hints.close()
        self._closed = True
        await self._listener.close()
        await self.pool.close()

    def terminate(self) -> None:
        """Cut all connections, without waiting."""
        self._closed = True
        self._hints.terminate()
        self._listener.terminate()
        self.pool.terminate()
