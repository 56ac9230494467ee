"""The servers that fault tests may hurt. A store joins by adding one here: a server of its own, behind a proxy."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import psycopg
import pymysql
import redis as driver

from dibs.clock import Clock
from dibs.stores.mysql import MysqlStore
from dibs.stores.postgres import PostgresStore
from tests.servers import mariadb, postgres, redis
from tests.servers.databases import connect_mysql
from tests.servers.proxy import Proxy


class Subject(Protocol):
    """A server, and what can be done to it."""

    url: str
    """Of its database, migrated; straight to it."""
    options: str
    """What is added to the URL of those who work: above all how long a server's silence is believed."""
    notice: float
    """Seconds after which a server that says nothing has been noticed, with those options."""
    commits: bytes
    """What a client sends to commit a transaction of several statements; empty: it sends nothing of the kind."""

    def stop(self, mode: str) -> None: ...
    def start(self) -> None: ...
    async def prepare(self) -> None:
        """Make the database empty and ready."""

    async def kill(self) -> int:
        """End every connection that dibs has to it; say how many there were."""
        ...

    def seen(self) -> list[str]:
        """Tell what its connections are at, as the server sees it: for a test that has waited in vain."""
        ...


_SEEN = """SELECT pid, state, wait_event, pg_blocking_pids(pid), clock_timestamp() - xact_start,
  clock_timestamp() - state_change, left(query, 80)
  FROM pg_stat_activity WHERE application_name = 'dibs' ORDER BY xact_start"""


class Postgres:
    options = "?timeout=2"
    notice = 2.0
    commits = b"COMMIT;"

    def __init__(self, server: postgres.Server) -> None:
        self._server = server
        self.url = server.url

    def stop(self, mode: str) -> None:
        self._server.stop(mode)

    def start(self) -> None:
        self._server.start()

    async def prepare(self) -> None:
        connection = await asyncpg.connect(self.url)
        await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        await connection.close()
        await PostgresStore(self.url, Clock()).migrate()

    async def kill(self) -> int:
        connection = await asyncpg.connect(self.url)
        killed = await connection.fetchval(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'dibs'"
        )
        await connection.close()
        return int(killed)

    def seen(self) -> list[str]:
        with psycopg.connect(self.url) as connection:
            return [str(row) for row in connection.execute(_SEEN).fetchall()]


class Mariadb:
    options = "?timeout=2"
    notice = 2.0
    commits = b";\nCOMMIT"

    def __init__(self, server: mariadb.Server) -> None:
        self._server = server
        self.url = urlunsplit(urlsplit(server.url)._replace(path="/jobs"))

    def stop(self, mode: str) -> None:
        self._server.stop(mode)

    def start(self) -> None:
        self._server.start()

    async def prepare(self) -> None:
        with self._operator() as cursor:
            for statement in ("DROP DATABASE IF EXISTS jobs", "CREATE DATABASE jobs"):
                cursor.execute(statement)
        await MysqlStore(self.url, Clock()).migrate()

    async def kill(self) -> int:
        return await asyncio.to_thread(self._kill)

    def _kill(self) -> int:
        with self._operator() as cursor:
            killed: int = cursor.execute("SELECT id FROM information_schema.processlist WHERE db = 'jobs'")
            for (number,) in cursor.fetchall():
                with suppress(pymysql.OperationalError):  # it has just ended by itself
                    cursor.execute(f"KILL {number}")
            return killed

    def seen(self) -> list[str]:
        with self._operator() as cursor:
            cursor.execute("SELECT id, command, time, state, left(info, 80) FROM information_schema.processlist")
            return [str(row) for row in cursor.fetchall()]

    @contextmanager
    def _operator(self) -> Iterator[Any]:
        with connect_mysql(self._server.url) as connection, connection.cursor() as cursor:
            yield cursor


@contextmanager
def postgresql() -> Iterator[Subject]:
    with postgres.private() as server:
        yield Postgres(server)


@contextmanager
def mysql() -> Iterator[Subject]:
    with mariadb.private() as server:
        yield Mariadb(server)


class Redis:
    options = "?timeout=2"
    notice = 2.0
    commits = b"EVALSHA"  # a script is done whole

    def __init__(self, server: redis.Server) -> None:
        self._server = server
        self.url = server.url

    def stop(self, mode: str) -> None:
        self._server.stop(mode)

    def start(self) -> None:
        self._server.start()

    async def prepare(self) -> None:
        await asyncio.to_thread(self._server.ask, "FLUSHALL")

    async def kill(self) -> int:
        return await asyncio.to_thread(self._kill)

    def _kill(self) -> int:
        with driver.Redis(port=self._server.port) as client:
            ours = [each["id"] for each in client.client_list() if each["name"] == "dibs"]
            return sum(client.client_kill_filter(_id=id) for id in ours)

    def seen(self) -> list[str]:
        with driver.Redis(port=self._server.port) as client:
            return [str({name: each[name] for name in ("id", "name", "idle", "cmd")}) for each in client.client_list()]


@contextmanager
def redis_() -> Iterator[Subject]:
    with redis.private(redis.DURABLE) as server:
        yield Redis(server)


SUBJECTS: dict[str, Callable[[], AbstractContextManager[Subject]]] = {
    "postgresql": postgresql,
    "mariadb": mysql,
    "redis": redis_,
}


@contextmanager
def behind_a_proxy(subject: Subject) -> Iterator[Proxy]:
    with Proxy.of(subject.url) as proxy:
        yield proxy
