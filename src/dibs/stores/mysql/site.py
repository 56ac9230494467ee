"""What one event loop has of a store: its connections."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from dibs.stores.common.pool import Pool
from dibs.stores.common.sites import Resident
from dibs.stores.mysql import migrate
from dibs.stores.mysql.errors import FAILURES, translate
from dibs.stores.mysql.link import Link
from dibs.stores.mysql.turn import Turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from dibs.stores.mysql.address import Address

logger = logging.getLogger("dibs")


class Site(Resident):
    """One event loop's part of a store."""

    def __init__(self, address: Address, told: Callable[[], int | None]) -> None:
        super().__init__()
        self.address = address
        self.pool: Pool[Link] = Pool(lambda: Link.connect(address), address.pool)
        self._told = told
        self._begun = False
        self._beginning = asyncio.Lock()
        # Who waits for users' transactions leaves some connections for others.
        self.patient = asyncio.Semaphore((address.pool + 1) // 2)

    async def begin(self) -> None:
        """Connect, look at the schema, and see that the loop's end is ours too."""
        async with self._beginning:
            if self._begun:
                return
            async with self.turn(checked=False) as turn:
                ahead = await migrate.check(turn, self.address.name)
            if ahead:
                logger.info("%s: nothing in it is in the way", ahead)
            await self.stay()
            self._begun = True

    @asynccontextmanager
    async def turn(self, *, checked: bool = True) -> AsyncIterator[Turn]:
        """Give a connection to one caller; what goes wrong with it is told in dibs's words."""
        if checked and not self._begun:
            await self.begin()
        try:
            async with self.pool.connection() as link:
                yield Turn(link, self._told())
        except FAILURES as error:
            raise translate(error, self.address.name) from error

    async def let_go(self) -> None:
        """Let go of all connections."""
        await self.pool.close()

    def terminate(self) -> None:
        """Cut all connections, without waiting."""
        self.pool.terminate()
