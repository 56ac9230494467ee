"""A Redis of the run's own, without persistence, and an empty database for each turn.

It is found and started as the tests do it. Nothing is written to a disk, by anyone: what is compared is what each queue
asks of the server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from urllib.parse import urlsplit, urlunsplit

from redis import Redis as Client

from bench.processor import spent
from bench.run import Run
from tests.servers import processes, redis

SETTINGS = {"slowlog-log-slower-than": "-1", "slowlog-max-len": "100000"}
"""It notes no command, unless it is told to."""
NOTED = 0.5
"""Milliseconds from which a script is worth a note."""
SCRIPTS = (b"EVAL", b"EVALSHA", b"FCALL")


class Redis:
    """A running server."""

    store = "redis"

    def __init__(self, server: redis.Server) -> None:
        self._server = server
        self._numbers = count()

    @asynccontextmanager
    async def database(self, *, migrated: bool = False) -> AsyncIterator[str]:
        """One of its databases, emptied before and afterwards; there is no schema."""
        number = next(self._numbers) % 100
        url = urlunsplit(urlsplit(self._server.url)._replace(path=f"/{number}"))
        self._empty(url)
        try:
            yield url
        finally:
            self._empty(url)

    def _empty(self, url: str) -> None:
        with Client.from_url(url) as client:
            client.flushdb()

    def spent(self) -> float:
        """Its processor time so far, in seconds."""
        return spent(processes.number(self._server.folder))

    def memory(self) -> int:
        """How many bytes it has taken for what it holds."""
        return int(self._server.ask("INFO", "memory")["used_memory"])

    @asynccontextmanager
    async def timed(self) -> AsyncIterator[dict[str, list[float]]]:
        """Have scripts timed by the server's own watch meanwhile: milliseconds, by the script's digest.

        Those that take less than ``NOTED`` are not told: with them, every command inside a script would be.
        """
        took: dict[str, list[float]] = {}
        self._server.ask("SLOWLOG", "RESET")
        self._server.ask("CONFIG", "SET", "slowlog-log-slower-than", round(1e3 * NOTED))
        try:
            yield took
        finally:
            self._server.ask("CONFIG", "SET", "slowlog-log-slower-than", -1)
        with Client(port=self._server.port) as client:  # arguments need not be text
            for entry in client.execute_command("SLOWLOG", "GET", -1):
                _, _, micros, (command, *arguments), *_ = entry
                if command.upper() in SCRIPTS:
                    took.setdefault(arguments[0].decode(), []).append(micros / 1e3)


@asynccontextmanager
async def serving(run: Run) -> AsyncIterator[Redis]:
    """Start a server for one case; stop it and remove its files when that is over."""
    with redis.private(SETTINGS, within=run.beside) as server:
        about = f"Redis {server.ask('INFO', 'server')['redis_version']}: no persistence"
        if about not in run.notes:
            run.notes.append(about)
        yield Redis(server)
