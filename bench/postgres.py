"""A PostgreSQL of the run's own, with production's durability, and an empty database for each turn.

It is found and started as the tests do it. What is acknowledged is on the disk: ``fsync``, ``synchronous_commit`` and
``full_page_writes`` are on, whatever a test may do without.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from bench.processor import spent
from bench.run import Run
from dibs.clock import Clock
from dibs.stores.postgres import PostgresStore
from tests.servers import postgres

SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "max_connections": "300",
    "autovacuum_naptime": "1min",  # as it ships; the tests have it come more often
    "shared_preload_libraries": "pg_stat_statements",
}


class Postgres:
    """A running server."""

    store = "postgres"

    def __init__(self, server: postgres.Server) -> None:
        self._server = server
        self._numbers = count()

    @asynccontextmanager
    async def database(self, *, migrated: bool = False) -> AsyncIterator[str]:
        """An empty database, gone afterwards: its URL."""
        name = f"bench_{next(self._numbers)}"
        # What other turns left to be written must not be written during this one.
        await self._execute("CHECKPOINT", f'CREATE DATABASE "{name}"')
        url = urlunsplit(urlsplit(self._server.url)._replace(path=f"/{name}"))
        try:
            if migrated:
                await PostgresStore(url, Clock()).migrate()
            yield url
        finally:
            await self._execute(f'DROP DATABASE "{name}" WITH (FORCE)')

    def spent(self) -> float:
        """Its processor time so far, in seconds."""
        return spent(int((self._server.folder / "data" / "postmaster.pid").read_text().split()[0]))

    async def _execute(self, *statements: str) -> None:
        connection = await asyncpg.connect(self._server.url)
        try:
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close()


@asynccontextmanager
async def serving(run: Run) -> AsyncIterator[Postgres]:
    """Start a server for one case; stop it and remove its files when that is over."""
    with postgres.private(SETTINGS, within=run.beside) as server:
        connection = await asyncpg.connect(server.url)
        version = str(await connection.fetchval("SHOW server_version")).split()[0]
        await connection.close()
        about = f"PostgreSQL {version}: fsync, synchronous_commit and full_page_writes on"
        if about not in run.notes:
            run.notes.append(about)
        yield Postgres(server)
