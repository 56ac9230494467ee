"""One connection of our own: how it is made, what is sent over it, and when it is of no use any more."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hiredis import pack_command
from redis.asyncio.connection import Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from dibs.stores.common.connecting import in_time
from dibs.stores.redis.errors import FAILURES, is_sound, translate

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from dibs.stores.redis.address import Address

_BYTES_A_SECOND = 2**20  # so much is sent in a second over a slow line


class Link:
    """A connection to the server."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        self._connection = connection
        self._timeout = timeout
        self._late = self._closed = False

    @classmethod
    async def connect(cls, address: Address) -> Link:
        """Open a connection."""
        options: dict[str, Any] = {"ssl_ca_certs": address.tls_ca} if address.tls_ca else {}
        connection = (SSLConnection if address.tls else Connection)(
            host=address.host,
            port=address.port,
            db=address.database,
            username=address.user,
            password=address.password,
            socket_timeout=None,  # the driver's limits cancel the task, and a batch on its way cannot be cancelled
            socket_connect_timeout=address.timeout,
            socket_keepalive=True,
            retry=Retry(NoBackoff(), 0),
            client_name="dibs",
            protocol=2,
            **options,
        )
        link = cls(connection, address.timeout)
        try:
            connecting: Coroutine[Any, Any, None] = connection.connect()  # type: ignore[no-untyped-call]
            await in_time(connecting, address.timeout, lambda: _close(connection))
        except BaseException as error:
            link.terminate()
            if isinstance(error, FAILURES):
                raise translate(error, address.name) from error
            raise
        return link

    async def call(self, *words: Any) -> Any:
        """Send a command, and read its answer."""
        command = pack_command(words)  # hiredis's own: the driver's asynchronous connections pack in Python, slowly
        seconds = self._timeout + len(command) / _BYTES_A_SECOND
        # Not asyncio.timeout: it cancels the task, and a batch on its way does not let itself be cancelled.
        late = asyncio.get_running_loop().call_later(seconds, self._give_up)
        try:
            await self._send(command)
            return await self._connection.read_response(disable_decoding=True)
        except FAILURES as error:
            if self._late:
                raise TimeoutError from error
            raise
        finally:
            late.cancel()

    async def send(self, *words: Any) -> None:
        """Send a command whose answer is read by someone else."""
        await self._send(pack_command(words))

    async def _send(self, command: bytes) -> None:
        if self.is_closed():  # the driver would connect anew by itself, and not be what this connection was
            raise ConnectionResetError("the connection was closed")
        await self._connection.send_packed_command(command, check_health=False)

    async def receive(self) -> Any:
        """Read what comes next, however long that takes. Whoever gives up may read on later."""
        # The driver would close the connection of one who gives up
        # (test_a_listener_that_hears_nothing_any_more_is_noticed).
        return await self._connection.read_response(disable_decoding=True, disconnect_on_error=False)

    def _give_up(self) -> None:
        self._late = True
        self._abort()

    def _abort(self) -> None:
        writer = self._connection._writer  # noqa: SLF001 - closing it politely would wait for a silent network
        if writer is not None:
            writer.transport.abort()

    def is_closed(self) -> bool:
        reader = self._connection._reader  # noqa: SLF001 - it tells no one else that the server has said goodbye
        return self._closed or reader is None or reader.at_eof() or reader.exception() is not None

    def is_sound(self, error: Exception) -> bool:
        return is_sound(error) and not self.is_closed()

    def terminate(self) -> None:
        self._closed = True
        with suppress(RuntimeError):  # the loop was closed, and the connection with it
            self._abort()
            _close(self._connection)

    async def close(self) -> None:
        self.terminate()


def _close(connection: Connection) -> None:
    connection._close()  # type: ignore[no-untyped-call]  # noqa: SLF001 - the only way that does not wait
