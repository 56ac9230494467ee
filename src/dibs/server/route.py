"""A route: what it takes, what it answers, who may call it. The server serves these, and OpenAPI is made from them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from dibs.wire.refused import NAMES

if TYPE_CHECKING:
    from starlette.types import Receive

    from dibs.broker.protocol import Broker
    from dibs.server.auth import Caller
    from dibs.server.state import State

JSON = "application/json"
HTML = "text/html; charset=utf-8"
EVENTS = "text/event-stream"

_SAFE = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))

encoder = msgspec.json.Encoder()


class Reply(NamedTuple):
    """What a handler answers: a struct of ``dibs.wire``, bytes of some other kind, or a stream of them."""

    body: Any
    status: int = 200
    media: str = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def head(self) -> list[tuple[bytes, bytes]]:
        """The headers, but for the length."""
        return [(b"content-type", self.media.encode()), *_SAFE, *self.headers]

    @property
    def stream(self) -> AsyncIterator[bytes] | None:
        """What is sent bit by bit, as it comes; none: all of it is there."""
        return self.body if isinstance(self.body, AsyncIterator) else None

    def encoded(self) -> bytes:
        """Give the bytes to send."""
        return self.body if isinstance(self.body, bytes) else encoder.encode(self.body)


class Call(NamedTuple):
    """One request, read and checked as far as that needs no broker."""

    state: State
    caller: Caller
    path: Mapping[str, str]
    body: Any
    query: Any
    headers: Mapping[bytes, bytes]
    receive: Receive

    @property
    def broker(self) -> Broker:
        """The broker of the running loop."""
        return self.state.app.runtime.broker()


Handler = Callable[[Call], Awaitable[Reply]]


class Route(NamedTuple):
    """One line of the table of routes."""

    method: str
    path: str
    handler: Handler
    summary: str
    scope: str | None = None  # none: no key is needed
    bodies: tuple[type[Any], ...] = ()
    may_be_empty: bool = False  # no body means an empty object
    query: type[Any] | None = None
    answers: Mapping[int, Any] = {}
    refuses: tuple[int, ...] = ()
    names: Mapping[str, str] = NAMES
    headers: Mapping[str, str] = {}  # that it reads, and what each is for
    media: str = JSON
    leads_to: tuple[str, ...] = ()  # operations that go on with the task that is answered

    @property
    def operation(self) -> str:
        """What the operation is called in OpenAPI."""
        return f"{self.handler.__module__.rpartition('.')[2]}_{self.handler.__name__}"
