"""Servers whose statements are counted by themselves, and which can be restarted: what a crowd of workers is put to."""

from __future__ import annotations

import asyncio
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import asyncpg
import redis as driver

from bench.load import HOST
from bench.run import Run
from dibs.clock import Clock
from dibs.stores.mysql import MysqlStore
from dibs.stores.postgres import PostgresStore
from tests.servers import cluster, mariadb, postgres, redis
from tests.servers.databases import connect_mysql

MOST_CONNECTIONS = "6000"
"""More than a thousand workers open, however many each may."""
CROWDED = {"maxclients": "12000", "tcp-backlog": "4000"}  # of each Redis; on a cluster a worker opens more
COUNTED = "SELECT sum(calls) FROM pg_stat_statements"
CALLS = [f"cmdstat_{name}" for name in ("evalsha", "eval", "ping", "hello", "ssubscribe", "cluster|slots")]
OPEN = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dibs'"


class Watched(Protocol):
    """Something that a crowd of workers asks."""

    name: str
    asked: str  # what is counted
    url: str

    async def count(self) -> int:
        """How many it has been asked, since some time before; fewer than last time if it has begun anew since."""
        ...

    async def connections(self) -> int:
        """How many are open."""
        ...

    async def restart(self) -> None:
        """Have all lose their connections at once; return when it may be asked again."""


class Postgres:
    name, asked = "PostgreSQL", "statements"

    def __init__(self, server: postgres.Server) -> None:
        self._server, self.url = server, server.url
        self._connection: asyncpg.Connection | None = None

    async def begin(self) -> None:
        await PostgresStore(self.url, Clock()).migrate()
        await self._value("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")

    async def count(self) -> int:
        return int(await self._value(COUNTED) or 0)

    async def connections(self) -> int:
        return int(await self._value(OPEN))

    async def restart(self) -> None:
        await self.end()
        await asyncio.to_thread(self._server.stop)
        await asyncio.to_thread(self._server.start)

    async def _value(self, statement: str) -> Any:
        if self._connection is None:
            self._connection = await asyncpg.connect(self.url)
        return await self._connection.fetchval(statement)

    async def end(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


class Mariadb:
    name, asked = "MariaDB", "statements"

    def __init__(self, server: mariadb.Server) -> None:
        self._server, self.url = server, server.url
        self._connection: Any = None

    async def begin(self) -> None:
        store = MysqlStore(self.url, Clock())
        await store.migrate()
        await store.close()

    async def count(self) -> int:
        return await asyncio.to_thread(self._status, "Questions")

    async def connections(self) -> int:
        return await asyncio.to_thread(self._status, "Threads_connected") - 1

    async def restart(self) -> None:
        self.end()
        await asyncio.to_thread(self._server.stop)
        await asyncio.to_thread(self._server.start)

    def _status(self, name: str) -> int:
        if self._connection is None:  # and it is kept: a busy server gives up those who greet it slowly
            self._connection = connect_mysql(self._server.url)
        with self._connection.cursor() as cursor:
            cursor.execute(f"SHOW GLOBAL STATUS LIKE '{name}'")
            [(_, value)] = cursor.fetchall()
        return int(value)

    def end(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class Redis:
    """One server or the nodes of a cluster. What scripts do inside is not counted: they are asked for as one."""

    asked = "calls"

    def __init__(self, name: str, url: str, nodes: list[redis.Server], *, keeps: bool) -> None:
        self.name, self.url, self._nodes, self._keeps = name, url, nodes, keeps

    async def count(self) -> int:
        return await asyncio.to_thread(lambda: sum(map(self._count, self._nodes)))

    async def connections(self) -> int:
        return await asyncio.to_thread(lambda: sum(map(self._connections, self._nodes)))

    async def restart(self) -> None:
        await asyncio.to_thread(self._restart)

    def _restart(self) -> None:
        for node in self._nodes:
            if self._keeps:
                node.stop()
                node.start()
            else:  # what it holds would be gone; those who are connected see no difference
                for kind in ("normal", "pubsub"):
                    node.ask("CLIENT", "KILL", "TYPE", kind)

    @staticmethod
    def _count(node: redis.Server) -> int:
        calls = node.ask("INFO", "commandstats")
        return sum(int(calls[name]["calls"]) for name in CALLS if name in calls)

    @staticmethod
    def _connections(node: redis.Server) -> int:
        with driver.Redis(port=node.port) as client:
            return sum(each["name"] == "dibs" for each in client.client_list())


class Served:
    """A dibs server: its own answers are counted; beside them what it asks of its database is told."""

    name, asked = "HTTP", "requests"

    def __init__(self, store: Postgres, folder: Path) -> None:
        from bench.cases.http import free_port

        self.store, self._folder, self._port = store, folder, free_port()
        self.url = f"http://{HOST}:{self._port}"
        self._serving: AbstractAsyncContextManager[Any] | None = None

    async def begin(self) -> None:
        from bench.cases.http import served

        command = (sys.executable, "-m", "dibs")
        self._serving = served(self._folder, *command, url=self.store.url, port=self._port)
        await self._serving.__aenter__()

    async def count(self) -> int:
        text = await asyncio.to_thread(self._metrics)
        lines = (line for line in text.splitlines() if line.startswith("dibs_http_requests_total"))
        return round(sum(float(line.rpartition(" ")[2]) for line in lines))

    def _metrics(self) -> str:
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=60) as answer:
            return str(answer.read().decode())

    async def connections(self) -> int:
        return await self.store.connections()

    async def restart(self) -> None:
        await self.end()
        await self.begin()

    async def end(self) -> None:
        serving, self._serving = self._serving, None
        if serving is not None:
            await serving.__aexit__(None, None, None)


@contextmanager
def _postgres(run: Run) -> Iterator[Postgres]:
    settings = {"max_connections": MOST_CONNECTIONS, "shared_preload_libraries": "pg_stat_statements"}
    with postgres.private(settings, within=run.beside) as server:
        yield Postgres(server)


@asynccontextmanager
async def on_postgres(run: Run) -> AsyncIterator[Watched]:
    with _postgres(run) as watched:
        await watched.begin()
        try:
            yield watched
        finally:
            await watched.end()


@asynccontextmanager
async def on_mariadb(run: Run) -> AsyncIterator[Watched]:
    options = {"max-connections": MOST_CONNECTIONS, "back-log": "4000"}
    with mariadb.private(options, within=run.beside) as server:
        watched = Mariadb(server)
        await watched.begin()
        try:
            yield watched
        finally:
            watched.end()


@asynccontextmanager
async def on_redis(run: Run) -> AsyncIterator[Watched]:
    with redis.private({"appendonly": "yes", **CROWDED}, within=run.beside) as server:
        yield Redis("Redis", server.url, [server], keeps=True)


@asynccontextmanager
async def on_cluster(run: Run) -> AsyncIterator[Watched]:
    del run
    with cluster.private(CROWDED) as server:
        yield Redis("Redis Cluster", server.url, [*server.nodes[: cluster.MASTERS]], keeps=False)


@asynccontextmanager
async def over_http(run: Run) -> AsyncIterator[Watched]:
    with _postgres(run) as store, run.fresh() as folder:
        await store.begin()
        watched = Served(store, folder)
        await watched.begin()
        try:
            yield watched
        finally:
            await watched.end()
            await store.end()
