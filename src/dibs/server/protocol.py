"""uvicorn's HTTP protocol, with an end to how much it takes as headers and how long it waits for them."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEADERS = 64 * 1024
"""Bytes of the request line and the headers; about, since they come in pieces."""
MAX_HEADER_COUNT = 100
HEADER_SECONDS = 30.0
"""How long they may take to arrive, and how long a new connection may say nothing."""


class Protocol(HttpToolsProtocol):
    """One connection. Without these limits, whoever sends a header without end fills the memory: no key is needed."""

    _deadline: asyncio.TimerHandle | None = None
    _expecting = True
    _taken = _headers_size = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._have_headers()
        super().connection_lost(exc)

    def eof_received(self) -> None:
        """Note that the client is gone. The connection ends with this, and what is written from now on is lost.

        Race: uvicorn learns of it a turn of the loop later, and until then would take a claim for answered that
        reaches no one (test_a_client_whose_end_was_seen_is_gone_at_once).
        """
        cycle: Any = self.cycle  # none before the first request
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()

    def on_message_begin(self) -> None:
        """Begin to wait for the rest of the headers."""
        super().on_message_begin()
        self._headers_size = 0
        self._await_headers()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, if there are not too many. The parser turns this error into a 400, and goes no further."""
        super().on_header(name, value)
        self._headers_size += len(name) + len(value)
        if len(self.headers) > MAX_HEADER_COUNT or self._headers_size > MAX_HEADERS:
            raise ValueError("too many headers, or too large ones")

    def on_headers_complete(self) -> None:
        """Go on with the request."""
        self._have_headers()
        super().on_headers_complete()

    def timeout_keep_alive_handler(self) -> None:
        """End a connection on which nothing is asked any more; cut one whose client does not take its last answer."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        super().timeout_keep_alive_handler()

    def data_received(self, data: bytes) -> None:
        """Take what has come, if it is not too much."""
        super().data_received(data)
        if self._expecting:
            self._taken += len(data)
            if self._taken > MAX_HEADERS and not self.transport.is_closing():
                self.send_400_response("The headers are too large.")

    def _await_headers(self) -> None:
        self._have_headers()
        self._expecting, self._taken = True, 0
        self._deadline = self.loop.call_later(HEADER_SECONDS, self._too_slow)

    def _have_headers(self) -> None:
        self._expecting = False
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
