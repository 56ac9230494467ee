"""Wake-up: those who wait hear of a job at once from this process's own commits, and of others' by NOTIFY.

All of it is a hint. Whoever waits looks again every second, so a hint that is lost costs that much and no more.
"""

from __future__ import annotations

import asyncio
import time
from random import SystemRandom
from typing import TYPE_CHECKING

from dibs.domain.errors import DibsError
from dibs.stores.postgres.errors import FAILURES
from dibs.stores.postgres.link import connect

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.stores.postgres.address import Address
    from dibs.stores.postgres.link import Link

POLL_SECONDS = 1.0
"""How long a lost hint may go unnoticed."""

TRUST_SECONDS = 5.0  # how long what was seen is believed, while a listener would have heard of news
_PING_SECONDS = 15.0  # how long a listener's silence is believed
_PING_TIMEOUT = 5.0
_chance = SystemRandom()  # those who lost their server in one moment are not to ask it in one, again and again


class Listener:
    """One connection of a loop that listens, made when someone first waits there and again when it was lost.

    It has no task of its own: those who wait see to it, once a second.
    """

    def __init__(self, address: Address, channel: str, heard: Callable[[str], None]) -> None:
        self._address, self._channel, self._heard = address, channel, heard
        self._connection: Link | None = None
        self._busy: asyncio.Lock = asyncio.Lock()
        self._asked = 0.0
        self._believed = _PING_SECONDS
        self._cuts = 0

    async def listening(self) -> bool:
        """Say whether hints are heard, after seeing to it."""
        alive = self._connection is not None and not self._connection.is_closed()
        if alive and time.monotonic() - self._asked < self._believed:
            return True
        if self._busy.locked():
            return False
        async with self._busy:
            try:
                return await self._see_to_it()
            except (DibsError, *FAILURES):
                self.terminate()
                return False

    async def _see_to_it(self) -> bool:
        if self._connection is None or self._connection.is_closed():
            await self._begin()
            return False  # what came before it was there is for a look to find
        self._asked, self._believed = time.monotonic(), _PING_SECONDS * _chance.uniform(0.8, 1.0)
        await self._connection.execute("SELECT 1", timeout=_PING_TIMEOUT)
        return True

    async def _begin(self) -> None:
        """Connect, and listen."""
        # Race: cut meanwhile, asyncpg would go on with what is not there any more. So it is ours alone until it listens
        # (test_a_listener_that_is_cut_as_it_begins_to_listen_begins_anew).
        cuts = self._cuts
        connection = await connect(self._address)
        try:
            await connection.add_listener(self._channel, self._hear)
        except BaseException:
            connection.terminate()
            raise
        if self._cuts != cuts:
            connection.terminate()
            return
        self._connection, self._asked = connection, time.monotonic()
        self._believed = _PING_SECONDS * _chance.uniform(0.0, 1.0)

    def _hear(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        self._heard(str(payload))

    async def close(self) -> None:
        """Stop listening."""
        if self._connection is not None and not self._connection.is_closed():
            await self._connection.close()
        self.terminate()

    def terminate(self) -> None:
        """Cut it, without waiting; one that is about to listen too."""
        self._cuts += 1
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
