"""A TCP proxy between a client and a server, which a test tells how the network shall be.

It knows no protocol, so any server may stand behind it. It runs in a thread of its own: a client that blocks its event
loop, or a server that is down, does not hold it up. What it is told holds when the call returns.

=============  =======================================================================================================
``pass_on``    as if it were not there; also ends what was told before
``delay``      every piece that comes, either way, goes on so many seconds later
``silence``    bytes are swallowed both ways, and connections stay: a half-open one stays so for good, as after a
               firewall has forgotten it; those that are made later are silent until the silence ends
``refuse``     no one listens: new connections are refused, the others stay
``reset``      every connection there is ends with RST, now
``cut_after``  the client's next bytes (that have a pattern in them) still reach the server, and it does what they say;
               but its answer is swallowed, and the connection reset: committed, and the client never learns of it;
               or, with ``silently``, the connection falls silent instead
=============  =======================================================================================================
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

from dibs.stores.common.pool import Pool

HOST = "127.0.0.1"
QUIET = 0.05
"""Seconds: a server that has begun to answer and then says no more for so long has done what it was asked."""

_PIECE = 65536
_NO_LINGER = struct.pack("ii", 1, 0)  # closing sends RST


class _Link:
    """One client's connection, and the proxy's own to the server for it."""

    def __init__(self, client: asyncio.StreamWriter) -> None:
        self.client = client
        self.server: asyncio.StreamWriter | None = None
        self.silent = False
        self.cutting = self.cut = False
        self.heard = asyncio.Event()  # of the server, since its answers are swallowed

    def reset(self) -> None:
        for writer in (self.client, self.server):
            if writer is not None:
                sock = writer.get_extra_info("socket")
                with contextlib.suppress(OSError):  # it was closed already
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
                writer.transport.abort()

    def close(self) -> None:
        for writer in (self.client, self.server):
            if writer is not None:
                writer.close()


class Proxy:
    """Listens on a free port of this machine; ``with`` it around what uses it."""

    def __init__(self, host: str, port: int) -> None:
        self.target = (host, port)
        self.port = 0
        self.cuts = 0  # how many connections were cut after the server had answered
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._silent = False
        self._seconds = 0.0
        self._pattern: bytes | None = None
        self._times = 0
        self._silently = False
        self._listener: asyncio.Server | None = None

    @classmethod
    def of(cls, url: str) -> Self:
        """Make one in front of the server that a URL names."""
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        return cls(parts.hostname, parts.port)

    def through(self, url: str) -> str:
        """Give the same URL, by way of this proxy."""
        parts = urlsplit(url)
        user = parts.netloc.rpartition("@")[0]
        return urlunsplit(parts._replace(netloc=f"{user}@{HOST}:{self.port}" if user else f"{HOST}:{self.port}"))

    # What a test says

    def pass_on(self) -> None:
        self._do(self._pass_on())

    def delay(self, seconds: float) -> None:
        self._seconds = seconds

    def silence(self) -> None:
        self._do(self._silence())

    def refuse(self) -> None:
        self._do(self._refuse())

    def reset(self) -> int:
        """Say how many there were."""
        return int(self._do(self._reset()))

    def cut_after(self, pattern: bytes = b"", times: int = 1, *, silently: bool = False) -> None:
        self._do(self._cut_after(pattern, times, silently))

    @property
    def connections(self) -> int:
        return len(self._links)

    # How it is done, on the proxy's own loop

    async def _listen(self) -> None:
        if self._listener is None:
            self._listener = await asyncio.start_server(self._accept, HOST, self.port, backlog=1000)
            self.port = self._listener.sockets[0].getsockname()[1]

    async def _pass_on(self) -> None:
        self._silent, self._seconds, self._pattern, self._times = False, 0.0, None, 0
        await self._listen()

    async def _silence(self) -> None:
        self._silent = True
        for link in self._links:
            link.silent = True

    async def _refuse(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()

    async def _reset(self) -> int:
        links = list(self._links)
        for link in links:
            link.reset()
        return len(links)

    async def _cut_after(self, pattern: bytes, times: int, silently: bool) -> None:
        self._pattern, self._times, self._silently = pattern, times, silently

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # At once, not with its task's first step: one that comes while the proxy ends is known, and ended with it.
        link = _Link(writer)
        link.silent = self._silent
        self._links.add(link)
        self._spawn(self._serve(link, reader))

    async def _serve(self, link: _Link, reader: asyncio.StreamReader) -> None:
        try:
            await self._carry(link, reader)
        except OSError:
            link.reset()
        finally:
            self._links.discard(link)
            if link.cutting and not link.cut and self._pattern is not None:
                self._times += 1  # it ended without an answer, as who only says goodbye does: cut another

    async def _carry(self, link: _Link, reader: asyncio.StreamReader) -> None:
        if link.silent:
            await self._forward(link, reader, to_server=True)
            link.close()
            return
        answers, link.server = await asyncio.open_connection(*self.target)
        ways = [
            self._spawn(self._forward(link, reader, to_server=True)),
            self._spawn(self._forward(link, answers, to_server=False)),
        ]
        done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        if link.silent:  # neither end learns what became of the other
            done, _ = await asyncio.wait(ways)
        for way in done:
            way.exception()
        link.close()
        for way in ways:
            way.cancel()

    async def _forward(self, link: _Link, reader: asyncio.StreamReader, *, to_server: bool) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(_PIECE):
                if self._seconds:
                    await asyncio.sleep(self._seconds)
                if link.cutting and not to_server:
                    link.heard.set()
                elif not link.silent:
                    await self._send(link, data, to_server=to_server)

    async def _send(self, link: _Link, data: bytes, *, to_server: bool) -> None:
        writer = link.server if to_server else link.client
        assert writer is not None
        if to_server and self._times and self._pattern is not None and self._pattern in data:
            self._times -= 1
            link.cutting = True
            self._spawn(self._cut(link))
        writer.write(data)
        await writer.drain()

    async def _cut(self, link: _Link) -> None:
        """Wait for the whole answer: a server that has more to say may not have committed yet."""
        await link.heard.wait()
        while link.heard.is_set():
            link.heard.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(link.heard.wait(), QUIET)
        self.cuts += 1
        link.cut = True
        if self._silently:
            link.silent = True
        else:
            link.reset()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def reset_what_waits_in(self, pool: Pool[Any]) -> int:
        """Reset every connection, and return when a pool's loop has heard of it. Until then one may cost it a call."""
        count = await asyncio.to_thread(self.reset)
        async with asyncio.timeout(10):
            while not all(link.is_closed() for link in pool._free):  # noqa: ASYNC110 - no one is told
                await asyncio.sleep(0.001)
        return count

    # Its life

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(self, *exc: object) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        await self._refuse()
        here = asyncio.current_task()
        while others := [task for task in asyncio.all_tasks() if task is not here]:
            await self._reset()
            for task in others:
                task.cancel()
            await asyncio.wait(others)
        await self._reset()
