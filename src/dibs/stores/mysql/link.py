"""One connection of our own: how it is set up, what is sent over it, and when it is of no use any more."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from asyncmy.connection import Connection

from dibs.stores.common.connecting import in_time
from dibs.stores.mysql.errors import FAILURES, TooOld, is_broken, too_large, translate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.stores.common.rows import Row
    from dibs.stores.mysql.address import Address

SLOTS = 64
"""In ``dibs_clock``."""
OLDEST = {"MySQL": (8, 0, 14), "MariaDB": (10, 6, 0)}

_IN_TRANSACTION = 1  # of what the server says about itself with each answer
_IDLE = 0.8  # of the time after which MySQL ends an idle connection, as that is how it ends an idle transaction
_PACKET_BYTES = 1024 * 1024  # statements that travel together, unless one alone is larger

_HELLO = "SELECT version(), connection_id(), @@session.max_allowed_packet"
_SETTINGS = (
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', sql_notes = 0",
    "SET SESSION innodb_lock_wait_timeout = 1",
)
_MARIADB = "SET SESSION idle_transaction_timeout = {}, in_predicate_conversion_threshold = 0"
_MYSQL = "SET SESSION wait_timeout = {}"


class Link:
    """A connection to the server."""

    def __init__(self, connection: Any, timeout: float) -> None:
        self._connection = connection
        self._timeout = timeout
        self._late = False
        self.mariadb = False
        self.slot = 0  # of the clock: whose row it writes
        self.most = _PACKET_BYTES  # that the server takes as one packet
        self._used = asyncio.get_running_loop().time()

    @classmethod
    async def connect(cls, address: Address) -> Link:
        """Open a connection, and set it up."""
        options: dict[str, Any] = {"unix_socket": address.socket} if address.socket else {}
        if address.ssl:
            options["ssl"] = {"ca": address.ssl_ca} if address.ssl_ca else True
        connection = None
        try:
            # Made here and not by asyncmy.connect, so that one which is given up half-way can be closed.
            connection = Connection(  # type: ignore[no-untyped-call]
                host=address.host,
                port=address.port,
                user=address.user,
                password=address.password.encode(),
                database=address.database,
                autocommit=True,
                charset="utf8mb4",
                program_name="dibs",
                connect_timeout=address.timeout,
                **options,
            )
            await in_time(connection.connect(), address.timeout, connection.close)
            link = cls(connection, address.timeout)
            [[(version, number, link.most)]] = await link.send([_HELLO])
            link.mariadb = _kind(address, version) == "MariaDB"
            link.slot = number % SLOTS
            ends = (_MARIADB if link.mariadb else _MYSQL).format(max(1, round(address.timeout)))
            await link.send([*_SETTINGS, ends])
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, (*FAILURES, ValueError, RuntimeError)):
                raise translate(error, address.name) from error
            raise
        return link

    async def send(self, statements: Sequence[str], more: float = 0.0) -> list[list[Row]]:
        """Send statements, together if they are not too large, and read all answers; they may wait for more seconds."""
        answers: list[list[Row]] = []
        for packet in _packets(statements):
            if len(packet) >= self.most:  # all of it is ASCII
                raise too_large(len(packet), self.most)
            # Not asyncio.timeout: it cancels the task, and a batch on its way does not let itself be cancelled.
            late = asyncio.get_running_loop().call_later(self._timeout + more, self._give_up)
            try:
                cursor = self._connection.cursor()
                await cursor.execute(packet)
                answers.append(await cursor.fetchall())
                while await cursor.nextset():
                    answers.append(await cursor.fetchall())
            except FAILURES as error:
                if self._late:
                    raise TimeoutError from error
                raise
            finally:
                late.cancel()
        self._used = self._connection.last_usage
        return answers

    def _give_up(self) -> None:
        self._late = True
        transport = self._connection._transport  # noqa: SLF001 - closing it politely would wait for a silent network
        if transport is not None:
            transport.abort()

    @property
    def shortest(self) -> int:
        """The shortest time that it can wait for a lock, in seconds."""
        return 0 if self.mariadb else 1

    def is_in_transaction(self) -> bool:
        """Say whether the server has begun a transaction that has not ended."""
        return bool(self._connection.server_status & _IN_TRANSACTION)

    def is_closed(self) -> bool:
        if not self._connection.connected or self._connection._stream_broken:  # noqa: SLF001 - it tells no one else
            return True
        return not self.mariadb and asyncio.get_running_loop().time() - self._used > _IDLE * self._timeout

    def is_sound(self, error: Exception) -> bool:
        """Say whether it is well though something failed: the server has answered, and nothing is half done."""
        if isinstance(error, FAILURES) and is_broken(error):
            return False
        return not self.is_closed() and not self.is_in_transaction()

    def terminate(self) -> None:
        self._connection.close()
        self._connection._connected = False  # noqa: SLF001 - close() alone does not say so

    async def close(self) -> None:
        try:
            with suppress(TimeoutError, *FAILURES):
                async with asyncio.timeout(1.0):
                    await self._connection.ensure_closed()
        finally:
            self.terminate()  # a server that is silent was not told, and its socket is still open


def _packets(statements: Sequence[str]) -> list[str]:
    """Put together what travels together."""
    packets: list[str] = []
    some: list[str] = []
    size = 0
    for text in statements:
        if some and size + len(text) > _PACKET_BYTES:
            packets.append(";\n".join(some))
            some, size = [], 0
        some.append(text)
        size += len(text)
    if some:
        packets.append(";\n".join(some))
    return packets


def _kind(address: Address, version: str) -> str:
    kind, numbers = read_version(version)
    if numbers and numbers < OLDEST[kind]:
        hint = "dibs needs MySQL 8.0.14 or MariaDB 10.6, or newer."
        raise TooOld(f"{address.name}: the server is {version}", hint=hint)
    return kind


def read_version(text: str) -> tuple[str, tuple[int, ...]]:
    """Read what a server calls itself: which of the two it is, and its version."""
    kind = "MariaDB" if "mariadb" in text.lower() else "MySQL"
    numbers = re.findall(r"\d+", text.removeprefix("5.5.5-").split("-")[0])  # older clients were told that of MariaDB
    return kind, tuple(int(number) for number in numbers[:3])
