"""Wake-up: those who wait hear of a job at once from this process's own commits, and of others' by NOTIFY.

All of it is a hint. Whoever waits looks again every second, so a hint that is lost costs that much and no more.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from dibs.domain.errors import DibsError
from dibs.stores.postgres.errors import FAILURES
from dibs.stores.postgres.link import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dibs.stores.postgres.address import Address
    from dibs.stores.postgres.link import Link
    from dibs.stores.postgres.turn import Name

POLL_SECONDS = 1.0
"""How long a lost hint may go unnoticed."""

TRUST_SECONDS = 5.0  # how long what was seen is believed, while a listener would have heard of news
_PING_SECONDS = 15.0  # how long a listener's silence is believed
_PING_TIMEOUT = 5.0
_NOTIFY_SECONDS = 0.02  # between two hints of one process
_LONGEST = 7000  # bytes of a hint; PostgreSQL takes up to 8000
_ANY = "*"


class Herald:
    """Tells other processes, at most so often: the first at once, what follows within a moment together."""

    def __init__(self) -> None:
        self.id = uuid4().hex
        self._lock = threading.Lock()
        self._last = 0.0
        self._gathered: set[Name] = set()
        self._any = False
        self._scheduled = False

    def pick(self, news: Iterable[Name] | None) -> tuple[str | None, float | None]:
        """Give what is to be sent now; or else in how many seconds to ask for the rest, if no one does yet.

        Real time: other processes are waiting, whose time no fake clock moves.
        """
        with self._lock:
            if news is None:
                self._any = True
            else:
                self._gathered.update(news)
            left = self._last + _NOTIFY_SECONDS - time.monotonic()
            if left <= 0:
                return self._take(), None
            if self._scheduled:
                return None, None
            self._scheduled = True
            return None, left

    def rest(self) -> str | None:
        """Give what has gathered since."""
        with self._lock:
            self._scheduled = False
            return self._take() if self._gathered or self._any else None

    def _take(self) -> str:
        self._last = time.monotonic()
        payload = self.about(None if self._any else self._gathered, self.id)
        self._gathered, self._any = set(), False
        return payload

    def about(self, news: Iterable[Name] | None, sender: str = "") -> str:
        """Put news into words; none: it may concern anyone. Without a sender they are news to its own process too."""
        names: Any = _ANY if news is None else sorted(news)
        payload = msgspec.json.encode([sender, names])
        return (payload if len(payload) <= _LONGEST else msgspec.json.encode([sender, _ANY])).decode()

    def read(self, payload: str) -> tuple[bool, list[Name] | None]:
        """Say whether a hint is from elsewhere, and what it is about."""
        try:
            sender, names = msgspec.json.decode(payload)
            return sender != self.id, None if names == _ANY else [(queue, task) for queue, task in names]
        except (msgspec.DecodeError, ValueError, TypeError):  # from whomever; it may mean anything
            return True, None


class Listener:
    """One connection of a loop that listens, made when someone first waits there and again when it was lost.

    It has no task of its own: those who wait see to it, once a second.
    """

    def __init__(self, address: Address, channel: str, heard: Callable[[str], None]) -> None:
        self._address, self._channel, self._heard = address, channel, heard
        self._connection: Link | None = None
        self._busy: asyncio.Lock = asyncio.Lock()
        self._asked = 0.0

    async def listening(self) -> bool:
        """Say whether hints are heard, after seeing to it."""
        alive = self._connection is not None and not self._connection.is_closed()
        if alive and time.monotonic() - self._asked < _PING_SECONDS:
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
            connection = self._connection = await connect(self._address)
            await connection.add_listener(self._channel, self._hear)
            self._asked = time.monotonic()
            return False  # what came before it was there is for a look to find
        self._asked = time.monotonic()
        await self._connection.execute("SELECT 1", timeout=_PING_TIMEOUT)
        return True

    def _hear(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        self._heard(str(payload))

    async def close(self) -> None:
        """Stop listening."""
        if self._connection is not None and not self._connection.is_closed():
            await self._connection.close()
        self.terminate()

    def terminate(self) -> None:
        """Cut it, without waiting."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
