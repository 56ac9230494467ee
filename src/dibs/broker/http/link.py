"""One connection to a server: a request at a time, and its answer. HTTP/1.1, as much of it as that takes."""

from __future__ import annotations

import asyncio
import re
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dibs.broker.http.address import Address

CONNECT_SECONDS = 10.0
"""How long it may take to connect."""
MAX_HEAD = 64 * 1024
"""Bytes of a status line and its headers."""
IDLE_SECONDS = 30.0
"""How long a connection is kept without being used: less than servers and proxies keep theirs, as a rule."""
FAREWELL_SECONDS = 2.0
"""How long the answer to one who gave up is waited for."""

_STATUS = re.compile(rb"HTTP/1\.([01]) ([0-9]{3})(?: |\r|\Z)")
_FINAL = 200
_NO_BODY = frozenset({204, 304})
_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}


class Response(NamedTuple):
    """What was answered."""

    status: int
    headers: Mapping[bytes, bytes]  # by their names in lower case
    body: bytes
    in_doubt: bool = False  # the same was sent before, and may have been done then


class Garbled(ConnectionError):
    """What came is not HTTP."""


class Link(asyncio.Protocol):
    """A connection. Whoever gives up on an answer takes the connection with it: no one else may read it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Response] | None = None
        self._taken = bytearray()
        self._head: tuple[int, dict[bytes, bytes]] | None = None  # once it has come
        self._chunks: _Chunks | None = None
        self._closed = self._last = self._late = False
        self._unread: Response | None = None  # came, but its caller had given up before it woke
        self._used_at = 0.0
        self.heard_at = 0.0
        """When the server last gave a sign of life, by the loop's clock."""

    @classmethod
    async def connect(cls, address: Address) -> Link:
        """Open a connection."""
        loop = asyncio.get_running_loop()
        connecting = loop.create_connection(cls, address.host, address.port, ssl=address.tls)
        # In a task of its own, which can be cancelled whoever waits for it: a batch on its way cannot.
        task = asyncio.ensure_future(connecting)
        try:
            done, _ = await asyncio.wait({task}, timeout=CONNECT_SECONDS)
        except asyncio.CancelledError:
            _abandon(task)
            raise
        if not done:
            _abandon(task)
            raise TimeoutError(f"no connection within {CONNECT_SECONDS:g} s")
        _, link = task.result()
        return link

    async def call(self, request: bytes, seconds: float | None) -> Response:
        """Send a request, and wait so long for its answer."""
        if self._closed or self._transport is None:
            raise ConnectionResetError("the connection was closed")
        answer: asyncio.Future[Response] = self._loop.create_future()
        self._answer = answer
        # Not asyncio.timeout: it cancels the task, and a batch on its way does not let itself be cancelled.
        late = None if seconds is None else self._loop.call_later(seconds, self._give_up)
        try:
            self._transport.write(request)
            return await answer
        except ConnectionError:
            if self._late:
                raise TimeoutError(f"no answer within {seconds:g} s") from None
            raise
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                self._unread = answer.result()
            raise
        finally:
            if late is not None:
                late.cancel()
            self._used_at = self._loop.time()

    async def farewell(self) -> Response | None:
        """Say that no more will be asked, and return the answer if it was on its way all the same.

        Race: a claim is given up as its answer comes. Who sees the end of what is sent before having answered gives
        the job back; and what was answered before that is read here: one or the other, never neither
        (test_a_claim_that_is_given_up_as_its_answer_comes_is_given_back). TLS has no such end, so there the
        connection is just cut.
        """
        if self._unread is not None:
            return self._unread
        transport = self._transport
        if self._closed or transport is None or not transport.can_write_eof():
            self.terminate()
            return None
        answer: asyncio.Future[Response] = self._loop.create_future()
        self._answer = answer
        late = self._loop.call_later(FAREWELL_SECONDS, self._give_up)
        try:
            transport.write_eof()
            self._read()  # it may be here already
            return await answer
        except (OSError, RuntimeError):
            return None
        finally:
            late.cancel()
            self.terminate()

    # As the loop tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)  # other loops have kinds of their own
        self._used_at = self.heard_at = self._loop.time()
        if (sock := transport.get_extra_info("socket")) is not None:
            with suppress(OSError):  # not every system lets one say how often
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for name, value in _KEEPALIVE.items():
                    if hasattr(socket, name):
                        sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def data_received(self, data: bytes) -> None:
        """Take what has come."""
        self.heard_at = self._loop.time()
        self._taken += data
        if self._answer is None:  # of someone who gave up, or no one asked
            self._last = True
            return
        self._read()

    def eof_received(self) -> bool | None:
        """Note that nothing more will come. An answer without a length ends here."""
        self._last = True
        if self._head is not None and self._length() is None and self._chunks is None:
            self._end(bytes(self._taken))
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that it is over."""
        self._closed = True
        self._fail(ConnectionResetError("the connection was lost before the answer came") if exc is None else exc)

    # Reading

    def _read(self) -> None:
        if self._answer is None or self._answer.done():
            return
        try:
            while self._head is None:
                if not self._read_head():
                    return
            if self._chunks is not None:
                if (body := self._chunks.take(self._taken)) is not None:
                    self._end(body)
                return
            length = self._length()
            if length is not None and len(self._taken) >= length:
                self._last = self._last or len(self._taken) > length
                self._end(bytes(self._taken[:length]))
        except ValueError:
            self._fail(Garbled("what was answered is not HTTP"))
            self.terminate()

    def _read_head(self) -> bool:
        end = self._taken.find(b"\r\n\r\n")
        if end < 0:
            if len(self._taken) > MAX_HEAD:
                raise ValueError("the head of an answer is too long")
            return False
        first, *lines = bytes(self._taken[:end]).split(b"\r\n")
        del self._taken[: end + 4]
        status = _STATUS.match(first)
        if status is None:
            raise ValueError("the status line cannot be read")
        code = int(status[2])
        if code < _FINAL:  # an answer before the answer
            return True
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        self._head = (code, headers)
        connection = headers.get(b"connection", b"").lower()
        self._last = self._last or b"close" in connection or (status[1] == b"0" and b"keep-alive" not in connection)
        if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
            self._chunks = _Chunks()
        return True

    def _length(self) -> int | None:
        """Say how long the body is; none: as long as the connection lasts."""
        if self._head is None:
            return None
        status, headers = self._head
        if status in _NO_BODY:
            return 0
        length = headers.get(b"content-length")
        return None if length is None else int(length)

    def _end(self, body: bytes) -> None:
        assert self._head is not None  # noqa: S101  # for the type checker
        response = Response(*self._head, body)
        self._head, self._chunks = None, None
        self._taken.clear()
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_result(response)
        if self._last:
            self.terminate()

    def _fail(self, error: BaseException) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(error if isinstance(error, OSError) else ConnectionResetError(str(error)))

    def _give_up(self) -> None:
        self._late = True
        self.terminate()

    # For the pool

    def is_closed(self) -> bool:
        return self._closed or self._last or self._loop.time() - self._used_at > IDLE_SECONDS

    def is_sound(self, error: Exception) -> bool:
        del error  # whatever it was: no one knows what is still to come
        return False

    def terminate(self) -> None:
        self._closed = True
        if self._transport is not None:
            with suppress(RuntimeError):  # the loop was closed, and the connection with it
                self._transport.abort()
        self._fail(ConnectionResetError("the connection was cut"))

    async def close(self) -> None:
        self.terminate()


def _abandon(connecting: asyncio.Task[tuple[asyncio.Transport, Link]]) -> None:
    """Connect no more. Race: given up, and connected in the same turn of the loop. Whatever it ends with is closed."""

    def hang_up(task: asyncio.Task[tuple[asyncio.Transport, Link]]) -> None:
        if not task.cancelled() and task.exception() is None:
            task.result()[1].terminate()

    connecting.add_done_callback(hang_up)
    connecting.cancel()


class _Chunks:
    """A body that comes in pieces, each with its length before it."""

    def __init__(self) -> None:
        self._body = bytearray()
        self._trailing = False

    def take(self, taken: bytearray) -> bytes | None:
        """Take what has come; the whole body, once it is there."""
        while (end := taken.find(b"\r\n")) >= 0:
            if self._trailing:
                empty = end == 0
                del taken[: end + 2]
                if empty:
                    return bytes(self._body)
                continue
            size = int(taken[:end].partition(b";")[0], 16)
            if size == 0:
                del taken[: end + 2]
                self._trailing = True
                continue
            if len(taken) < end + 2 + size + 2:
                return None
            self._body += taken[end + 2 : end + 2 + size]
            del taken[: end + 2 + size + 2]
        return None
