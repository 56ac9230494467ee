"""One connection of our own: how it is made, what is sent over it, and when it is of no use any more.

redis-py connects, and says hello. From then on the connection is read here: its own way of reading passes each answer
through several coroutines, which for one that comes after a rest costs more than all else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hiredis import Reader, pack_command
from redis.asyncio.connection import Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import InvalidResponse

from dibs.stores.common.connecting import in_time
from dibs.stores.redis.errors import FAILURES, is_sound, translate

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from dibs.stores.redis.address import Address

_BYTES_A_SECOND = 2**20  # so much is sent in a second over a slow line


class _Wire(asyncio.Protocol):
    """Reads answers, in order, for one reader at a time."""

    def __init__(self, transport: asyncio.Transport, error: Callable[[str], Exception]) -> None:
        self.transport = transport
        self._reader = Reader(protocolError=InvalidResponse, replyError=error)
        self._answers: deque[Any] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._heard: Callable[[Any], None] | None = None  # who is told of what comes, rather than asking for it
        self.lost: Exception | None = None
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        transport.set_protocol(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._reader.feed(data)
            while (answer := self._reader.gets()) is not False:
                if self._heard is None:
                    self._answers.append(answer)
                else:
                    self._heard(answer)
        except InvalidResponse as error:
            self.lost = error
            self.transport.abort()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = self.lost or exc or ConnectionResetError("the server closed the connection")
        self._gone.set_result(None)
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def pass_on(self, heard: Callable[[Any], None]) -> None:
        """Tell of what comes from now on as it comes: through a task it would take two turns of the loop longer."""
        self._heard = heard
        while self._answers:
            heard(self._answers.popleft())

    async def loss(self, seconds: float) -> None:
        """Wait so long at the most; raise what has ended the connection, if something has."""
        await asyncio.wait({self._gone}, timeout=seconds)
        if self.lost is not None:
            raise self.lost

    async def read(self) -> Any:
        """Give the next answer, however long that takes. Whoever gives up may read on later."""
        while not self._answers:
            if self.lost is not None:
                raise self.lost
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        answer = self._answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        return answer


class Link:
    """A connection to the server."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        self._connection = connection
        self._timeout = timeout
        writer: Any = connection._writer  # noqa: SLF001 - there is no other way to its transport
        self._wire = _Wire(writer.transport, connection._parser.parse_error)  # noqa: SLF001
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
            driver_info=None,  # the driver would read its own version from the disk each time, and tell it
            protocol=2,
            **options,
        )
        try:
            connecting: Coroutine[Any, Any, None] = connection.connect()  # type: ignore[no-untyped-call]
            await in_time(connecting, address.timeout, lambda: _close(connection))
        except BaseException as error:
            _cut(connection)
            if isinstance(error, FAILURES):
                raise translate(error, address.name) from error
            raise
        return cls(connection, address.timeout)

    async def call(self, *words: Any) -> Any:
        """Send a command, and read its answer."""
        command = pack_command(words)  # hiredis's own: the driver's asynchronous connections pack in Python, slowly
        seconds = self._timeout + len(command) / _BYTES_A_SECOND
        # Not asyncio.timeout: it cancels the task, and a batch on its way does not let itself be cancelled.
        late = asyncio.get_running_loop().call_later(seconds, self._give_up)
        try:
            self._send(command)
            return await self._wire.read()
        except FAILURES as error:
            if self._late:
                raise TimeoutError from error
            raise
        finally:
            late.cancel()

    def send(self, *words: Any) -> None:
        """Send a command whose answer is read by someone else."""
        self._send(pack_command(words))

    def _send(self, command: bytes) -> None:
        if self.is_closed():
            raise ConnectionResetError("the connection was closed")
        self._wire.transport.write(command)  # all of it: no one is answered before the server has read it

    async def receive(self) -> Any:
        """Read what comes next, however long that takes. Whoever gives up may read on later."""
        return await self._wire.read()

    def pass_on(self, heard: Callable[[Any], None]) -> None:
        """Tell of what comes from now on, as it comes; no one reads it any more."""
        self._wire.pass_on(heard)

    async def loss(self, seconds: float) -> None:
        """Wait so long at the most; raise what has ended the connection, if something has."""
        await self._wire.loss(seconds)

    def _give_up(self) -> None:
        self._late = True
        self._wire.transport.abort()  # closing it politely would wait for a silent network

    def is_closed(self) -> bool:
        return self._closed or self._wire.lost is not None or self._wire.transport.is_closing()

    def is_sound(self, error: Exception) -> bool:
        return is_sound(error) and not self.is_closed()

    def terminate(self) -> None:
        self._closed = True
        _cut(self._connection)

    async def close(self) -> None:
        self.terminate()


def _cut(connection: Connection) -> None:
    with suppress(RuntimeError):  # the loop was closed, and the connection with it
        if (writer := connection._writer) is not None:  # noqa: SLF001 - it would wait
            writer.transport.abort()
        _close(connection)


def _close(connection: Connection) -> None:
    connection._close()  # type: ignore[no-untyped-call]  # noqa: SLF001 - the only way that does not wait
