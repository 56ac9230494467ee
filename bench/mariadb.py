"""A MariaDB of the run's own, which confirms what is on the disk, and an empty database for each turn."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from urllib.parse import urlsplit, urlunsplit

from bench.processor import spent
from dibs.clock import Clock
from dibs.stores.mysql import MysqlStore
from tests.servers import mariadb, processes
from tests.servers.databases import connect_mysql


class Mariadb:
    """A running server."""

    store = "mariadb"

    def __init__(self, server: mariadb.Server) -> None:
        self._server = server
        self._numbers = count()

    @asynccontextmanager
    async def database(self, *, migrated: bool = False) -> AsyncIterator[str]:
        """A new database that is gone afterwards."""
        name, url = f"bench_{next(self._numbers)}", self._server.url
        connection = connect_mysql(url)
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
            try:
                own = urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
                if migrated:
                    store = MysqlStore(own, Clock())
                    await store.migrate()
                    await store.close()
                yield own
            finally:
                cursor.execute(f"DROP DATABASE {name}")
                connection.close()

    def spent(self) -> float:
        """Its processor time so far, in seconds."""
        return spent(processes.number(self._server.folder))


@asynccontextmanager
async def serving() -> AsyncIterator[Mariadb]:
    """Start a server for one case; stop it and remove its files when that is over."""
    with mariadb.private() as server:
        yield Mariadb(server)
