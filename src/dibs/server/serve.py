"""``dibs serve``: a process that listens, and stops within seconds when it is told to; or several on one port."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import uvicorn

from dibs.app import App
from dibs.domain.errors import DibsError, InvalidRequest, Problem, StoreUnavailable
from dibs.server import metrics, processes
from dibs.server.api import make
from dibs.server.auth import is_loopback
from dibs.server.firstkey import first_key
from dibs.server.journal import write_requests
from dibs.server.protocol import Protocol

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Iterator
    from types import FrameType

    from dibs.server.api import Api
    from dibs.server.tls import Certificate

logger = logging.getLogger("dibs")

HOST = "127.0.0.1"
PORT = 8642
GRACE = 5
"""Seconds that requests under way are given when the server stops; claims that wait end at once."""
KEEP_ALIVE = 75
"""Seconds that a connection may be idle: longer than a worker takes between two claims, as a rule."""
BACKLOG = 2048


class Server(uvicorn.Server):
    """uvicorn, told to end the claims that wait before it waits for its connections to end."""

    def __init__(
        self,
        api: Api,
        started: Callable[[], None] = lambda: None,
        *,
        context: ssl.SSLContext | None = None,
    ) -> None:
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
                backlog=1,  # see startup
            )
        )
        self.config.load()
        self.config.ssl = context
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
        # The event loop's backlog is also how many connections it takes before it does anything else. One at a time,
        # and a process that has nothing to do takes the next. How many may wait is for the socket to say.
        for listening in sockets or ():
            listening.listen(BACKLOG)
        self._tell_started()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Listen to signals as uvicorn does, but do not let them end the process: there is more to close."""
        before = {number: signal.signal(number, self.handle_exit) for number in processes.SIGNALS}
        signal.pthread_sigmask(signal.SIG_UNBLOCK, processes.SIGNALS)  # a process that was started keeps them until now
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
    number: int = 1,
    certificate: Certificate | None = None,
    log_requests: bool = False,
    check_params: bool = True,
    terminal: bool = False,
    say: Callable[[str], None] = print,
) -> None:
    """Serve an app until SIGTERM or Ctrl-C. ``terminal``: a first key may be shown, for no one keeps what is said."""
    _check(app, host, number, auth=auth)
    context = None if certificate is None else certificate.load()
    prepare = partial(_prepare, app, auth=auth, terminal=terminal, say=say)
    with _listen(host, port) as listening:
        scheme, whom = "https" if certificate else "http", "" if auth else ", to anyone on this machine"
        started = partial(say, f"dibs serves {app!r} on {_address(listening, scheme)}{whom}")
        if number == 1:
            if log_requests:
                write_requests()
            api = make(app, auth=auth, check_params=check_params)
            asyncio.run(_run(app, api, listening, prepare, context=context, started=started))
        else:
            asyncio.run(_closing(app, prepare()))
            post = processes.Post(app.url, listening, auth, certificate, log_requests, check_params)
            processes.oversee(serve_one, post, number, app.runtime.clock, started=started)
    say("dibs has stopped")


def _check(app: App, host: str, number: int, *, auth: bool) -> None:
    problems: list[Problem] = []
    if not auth and not is_loopback(host):
        problems.append(
            Problem("host", f"{host} can be reached from elsewhere: keys are needed, so leave out --no-auth")
        )
    if not 1 <= number <= processes.MOST:
        problems.append(Problem("processes", f"must be 1 to {processes.MOST}"))
    elif number > 1 and app.url.startswith("memory:"):
        problems.append(Problem("processes", "must be 1, since each would have a memory of its own"))
    if problems:
        raise InvalidRequest(problems)


async def _prepare(app: App, *, auth: bool, terminal: bool, say: Callable[[str], None]) -> None:
    """Tell now what would keep every process from serving, and make the first key."""
    if auth:
        await first_key(app, terminal=terminal, say=say)
    await app.runtime.broker().read("ready")


async def _closing(app: App, work: Awaitable[None]) -> None:
    try:
        await work
    finally:
        await app.close()


async def _run(
    app: App,
    api: Api,
    listening: socket.socket,
    prepare: Callable[[], Awaitable[None]],
    *,
    context: ssl.SSLContext | None,
    started: Callable[[], None],
) -> None:
    async def serve() -> None:
        await prepare()
        app.runtime.maintain()
        await Server(api, started, context=context).run_on(listening)

    await _closing(app, serve())


def serve_one(post: processes.Post, seat: processes.Seat) -> None:
    """Serve as one of several processes, until told to stop, or until no one is left to tell."""
    metrics.share(seat.folder, seat.place)
    if post.log_requests:
        write_requests()
    app = App(post.url)

    async def serve() -> None:
        app.runtime.maintain()
        context = None if post.certificate is None else post.certificate.load()
        api = make(app, auth=post.auth, check_params=post.check_params, shared=seat.folder)
        server = Server(api, seat.report, context=context)
        seat.when_left_alone(lambda: server.handle_exit(signal.SIGTERM, None))
        await server.run_on(post.listening)

    try:
        asyncio.run(_closing(app, serve()))
    except DibsError as error:
        logger.error("a process cannot serve: %s", error)  # noqa: TRY400 - a sentence says it
        raise SystemExit(error.exit_code) from None
    finally:
        seat.leave()


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


def _address(listening: socket.socket, scheme: str = "http") -> str:
    host, port = listening.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
