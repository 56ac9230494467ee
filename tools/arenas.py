"""Where the hammers meet: an SQLite file, or a server's database; what is watched there, and what must hold of it."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

ROOT = Path(__file__).parents[1]
MIB = 2**20
MOST_WAL = 64 * MIB


class Arena(Protocol):
    """A store that is hammered."""

    url: str
    name: str

    def now(self) -> str:
        """Say in a few words how it is, while it is hammered."""
        ...

    def end(self) -> tuple[dict[str, Any], dict[str, bool]]:
        """Give the figures that are of interest only here, and what had to hold."""
        ...


class SqliteFile:
    """One file. Its WAL is measured, twenty times a second."""

    name = "one file"

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/jobs.db"
        self._wal = folder / "jobs.db-wal"
        self._largest = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._measure, daemon=True)
        self._thread.start()

    def _measure(self) -> None:
        while not self._over.wait(0.05):
            try:
                self._largest = max(self._largest, self._wal.stat().st_size)
            except FileNotFoundError:
                continue

    def now(self) -> str:
        return f"WAL {self._largest / MIB:.1f} MiB"

    def end(self) -> tuple[dict[str, Any], dict[str, bool]]:
        self._over.set()
        self._thread.join()
        return {"largest_wal_mib": round(self._largest / MIB, 2)}, {"WAL under 64 MiB": self._largest < MOST_WAL}


class PostgresDatabase:
    """One database. The server says how many deadlocks it has met: each was retried, or someone was told of it."""

    name = "one database"

    def __init__(self, url: str) -> None:
        self.url = url
        self._before = asyncio.run(self._prepare())

    async def _prepare(self) -> int:
        from dibs.clock import Clock
        from dibs.stores.postgres import PostgresStore

        store = PostgresStore(self.url, Clock())
        await store.migrate()
        counts = await store.counts()
        await store.close()
        if counts.unfinished + counts.completed + counts.failed + counts.cancelled:
            sys.exit("there are jobs in this database already: name an empty one")
        return (await self._ask())["deadlocks"]

    async def _ask(self) -> dict[str, int]:
        import asyncpg

        connection = await asyncpg.connect(self.url.partition("?")[0])
        row = await connection.fetchrow(
            "SELECT deadlocks, xact_commit AS commits, pg_database_size(datname) AS size, "
            "(SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dibs') AS connections "
            "FROM pg_stat_database WHERE datname = current_database()"
        )
        await connection.close()
        return dict(row)

    def now(self) -> str:
        found = asyncio.run(self._ask())
        return f"{found['connections']} connections, {found['deadlocks'] - self._before} deadlocks retried"

    def end(self) -> tuple[dict[str, Any], dict[str, bool]]:
        found = asyncio.run(self._ask())
        return {
            "deadlocks_retried": found["deadlocks"] - self._before,
            "commits": found["commits"],
            "size_mib": round(found["size"] / MIB, 1),
        }, {}


class MysqlDatabase:
    """One database. The server says how many deadlocks it has met: each was retried, or someone was told of it."""

    name = "one database"

    def __init__(self, url: str) -> None:
        self.url = url
        asyncio.run(self._prepare())
        self._before = self._ask()

    async def _prepare(self) -> None:
        from dibs.clock import Clock
        from dibs.stores.mysql import MysqlStore

        store = MysqlStore(self.url, Clock())
        await store.migrate()
        counts = await store.counts()
        await store.close()
        if counts.unfinished + counts.completed + counts.failed + counts.cancelled:
            sys.exit("there are jobs in this database already: name an empty one")

    def _ask(self) -> dict[str, int]:
        from tests.servers.databases import connect_mysql

        with connect_mysql(self.url) as connection, connection.cursor() as cursor:
            cursor.execute(
                "SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_deadlocks', 'Com_commit', 'Threads_connected')"
            )
            return {name.lower(): int(value) for name, value in cursor.fetchall()}

    def now(self) -> str:
        found = self._ask()
        deadlocks = found.get("innodb_deadlocks", 0) - self._before.get("innodb_deadlocks", 0)
        return f"{found['threads_connected']} connections, {deadlocks} deadlocks retried"

    def end(self) -> tuple[dict[str, Any], dict[str, bool]]:
        found = self._ask()
        return {
            "deadlocks_retried": found.get("innodb_deadlocks", 0) - self._before.get("innodb_deadlocks", 0),
            "commits": found["com_commit"] - self._before["com_commit"],
        }, {}


class RedisDatabase:
    """One database. The server says how many scripts it has run, and how much memory it takes."""

    name = "one database"

    def __init__(self, url: str) -> None:
        self.url = url
        asyncio.run(self._prepare())

    async def _prepare(self) -> None:
        from dibs.broker.connect import open_store
        from dibs.clock import Clock

        store = open_store(self.url, Clock())
        counts = await store.counts()
        await store.close()
        if counts.unfinished + counts.completed + counts.failed + counts.cancelled:
            sys.exit("there are jobs in this database already: name an empty one")

    def _ask(self) -> dict[str, Any]:
        import redis

        with redis.Redis.from_url(self.url.partition("?")[0]) as client:
            info = client.info("everything")
        scripts = info.get("cmdstat_evalsha", {"calls": 0})["calls"]
        return {"scripts": scripts, "size": info["used_memory"], "connections": info["connected_clients"]}

    def now(self) -> str:
        found = self._ask()
        return f"{found['connections']} connections, {found['scripts']} scripts"

    def end(self) -> tuple[dict[str, Any], dict[str, bool]]:
        found = self._ask()
        return {"scripts": found["scripts"], "size_mib": round(found["size"] / MIB, 1)}, {}


class RedisCluster(RedisDatabase):
    """One cluster, whose masters are asked one by one."""

    name = "one cluster"

    def _ask(self) -> dict[str, Any]:
        import redis

        url = self.url.partition("?")[0].replace("+cluster", "")
        with redis.RedisCluster.from_url(url) as client:
            each = [client.get_redis_connection(node).info("everything") for node in client.get_primaries()]
        return {
            "scripts": sum(info.get("cmdstat_evalsha", {"calls": 0})["calls"] for info in each),
            "size": sum(info["used_memory"] for info in each),
            "connections": sum(info["connected_clients"] for info in each),
        }


@contextmanager
def enter(store: str, folder: Path) -> Iterator[Arena]:
    """Make what ``--store`` names: ``sqlite``, a server of its own by its make, or an empty database by URL."""
    sys.path.insert(0, str(ROOT))
    if store == "sqlite":
        yield SqliteFile(folder)
    elif store == "postgresql":
        from tests.servers import postgres

        with postgres.private() as server:
            yield PostgresDatabase(server.url)
    elif store.startswith("postgresql://"):
        yield PostgresDatabase(store)
    elif store == "mariadb":
        from tests.servers import mariadb
        from tests.servers.databases import connect_mysql

        with mariadb.private() as server:
            with connect_mysql(server.url) as connection:
                connection.cursor().execute("CREATE DATABASE jobs")
            yield MysqlDatabase(server.url.removesuffix("/mysql") + "/jobs")
    elif store.startswith(("mysql://", "mariadb://")):
        yield MysqlDatabase(store)
    elif store == "redis":
        from tests.servers import redis

        with redis.private(redis.DURABLE) as server:
            yield RedisDatabase(server.url)
    elif store.startswith(("redis://", "rediss://")):
        yield RedisDatabase(store)
    elif store == "cluster":
        from tests.servers import cluster

        with cluster.private() as server:
            yield RedisCluster(f"{server.url}?partitions=3")
    elif store.startswith(("redis+cluster://", "rediss+cluster://")):
        yield RedisCluster(store)
    else:
        makes = "sqlite, postgresql, mariadb, redis, cluster"
        sys.exit(f"--store {store}: must be {makes}, or the URL of a server's database")
