"""``dibs serve``: one process that listens, and stops within seconds when it is told to."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

from dibs.domain.errors import InvalidRequest, Problem, StoreUnavailable
from dibs.server import keys
from dibs.server.api import make
from dibs.server.auth import is_loopback
from dibs.server.protocol import Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from dibs.app import App
    from dibs.server.api import Api

HOST = "127.0.0.1"
PORT = 8642
GRACE = 5
"""Seconds that requests under way are given when the server stops; claims that wait end at once."""
KEEP_ALIVE = 75
"""Seconds that a connection may be idle: longer than a worker takes between two claims, as a rule."""
BACKLOG = 2048
KEY_FILE = "dibs-admin.key"

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Server(uvicorn.Server):
    """uvicorn, told to end the claims that wait before it waits for its connections to end."""

    def __init__(self, api: Api, started: Callable[[], None] = lambda: None) -> None:
        super().__init__(
            uvicorn.Config(
                api,
                lifespan="off",
                http=Protocol,
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE,
                timeout_graceful_shutdown=GRACE,
                backlog=BACKLOG,
            )
        )
        self._api = api
        self._tell_started = started
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run_on(self, listening: socket.socket) -> None:
        """Serve until told to stop, and until what was under way has ended."""
        self._loop = asyncio.get_running_loop()
        await self.serve([listening])
        # uvicorn cancels what took too long, but does not wait for it: a claim must be known to be given back.
        await asyncio.gather(*self.server_state.tasks, return_exceptions=True)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say so. Signals are listened to by then: whoever is told may send one."""
        await super().startup(sockets)
        self._tell_started()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Listen to signals as uvicorn does, but do not let them end the process: there is more to close."""
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop. The second Ctrl-C does not wait."""
        super().handle_exit(sig, frame)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._api.stop)


def run(
    app: App,
    *,
    host: str = HOST,
    port: int = PORT,
    auth: bool = True,
    terminal: bool = False,
    say: Callable[[str], None] = print,
) -> None:
    """Serve an app until SIGTERM or Ctrl-C. ``terminal``: a first key may be shown, for no one keeps what is said."""
    if not auth and not is_loopback(host):
        raise InvalidRequest(
            [Problem("host", f"{host} can be reached from elsewhere: keys are needed, so leave out --no-auth")]
        )
    with _listen(host, port) as listening:
        asyncio.run(_run(app, listening, auth=auth, terminal=terminal, say=say))


async def _run(app: App, listening: socket.socket, *, auth: bool, terminal: bool, say: Callable[[str], None]) -> None:
    try:
        if auth:
            await first_key(app, terminal=terminal, say=say)
        await app.runtime.broker().read("ready")  # a store that cannot be opened is told now
        app.runtime.maintain()
        whom = "" if auth else ", to anyone on this machine"
        server = Server(make(app, auth=auth), lambda: say(f"dibs serves {app!r} on {_address(listening)}{whom}"))
        await server.run_on(listening)
    finally:
        await app.close()
    say("dibs has stopped")


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
        # Answers leave at once. The event loop does this only for sockets that it made itself.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except (OSError, OverflowError) as error:
        raise StoreUnavailable(
            f"cannot listen on {host} port {port}: {error}", hint="Choose another with --host and --port."
        ) from None


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def first_key(app: App, *, terminal: bool, say: Callable[[str], None]) -> None:
    """Make an admin key if there are none at all: shown on a terminal, else in a file that only its owner can read."""
    broker = app.runtime.broker()
    if await keys.everything(broker):
        return
    text, key = keys.first(app.runtime.clock)
    if terminal:
        if await keys.put_first(broker, key):
            say(f"This is the first start. The admin key, shown this once: {text}")
        return
    # The file first: a key that no one could read would lock everyone out.
    path = _write_secret(text)
    if await keys.put_first(broker, key):
        say(f"This is the first start. The admin key is in {path}, which only its owner can read.")
    else:
        path.unlink()


def _write_secret(text: str) -> Path:
    for number in range(100):
        path = Path.cwd() / (KEY_FILE if number == 0 else f"{KEY_FILE}.{number}")
        with suppress(FileExistsError):
            try:
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except PermissionError:
                break
            with os.fdopen(descriptor, "w") as file:
                file.write(text + "\n")
            return path
    raise StoreUnavailable(
        f"the admin key of the first start cannot be written to {Path.cwd()}",
        hint="Start in a folder that can be written to, or make a key before: `dibs keys create`.",
    )
