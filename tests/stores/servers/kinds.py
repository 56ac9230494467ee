"""The servers that keep jobs: how a test makes a store on one, and what it does beside that, in the server's words."""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

import asyncmy
import asyncpg
import psycopg

from dibs.clock import Clock
from dibs.stores.common.pool import Link
from dibs.stores.mysql import MysqlStore
from dibs.stores.mysql import address as mysql_address
from dibs.stores.mysql import link as mysql_link
from dibs.stores.mysql import migrate as mysql_migrate
from dibs.stores.postgres import PostgresStore
from dibs.stores.postgres import address as postgres_address
from dibs.stores.postgres import link as postgres_link
from dibs.stores.postgres import migrate as postgres_migrate
from tests.servers import mariadb, postgres
from tests.servers.databases import bare_mysql, bare_postgres, connect_mysql, empty_mysql, empty_postgres

ServerStore = PostgresStore | MysqlStore


class Own(Protocol):
    """A user's connection: its transactions, its statements, and the driver's own object."""

    connection: Any

    async def begin(self) -> None: ...
    async def commit(self) -> None: ...
    async def rollback(self) -> None: ...
    async def run(self, sql: str) -> list[Any]: ...
    async def value(self, sql: str) -> Any: ...
    async def close(self) -> None: ...


class Server(Protocol):
    """One that a test may stop and start."""

    def stop(self, mode: str = ...) -> None: ...
    def start(self) -> None: ...


class Kind(Protocol):
    """One kind of server."""

    name: str
    """As in a URL."""
    now: str
    """What asks for the server's time, in microseconds."""
    ours: str
    """What lists the connections of stores on a database."""
    blocked: str
    """What lists those of them that wait for a table."""
    set_ahead: str
    """What sets the store's clock to a time."""
    begins: bytes
    """What is sent for a transaction of several statements before it commits; once its statements are prepared."""
    commits: bytes
    """What is sent to commit one."""
    commits_one: bytes
    """The same, for what may be done in one statement; empty: the statement is all that is sent."""

    @property
    def steps(self) -> list[str]:
        """The migrations."""
        ...

    def store(self, url: str, clock: Clock) -> ServerStore: ...
    def empty(self) -> str: ...
    def bare(self, name: str) -> str: ...
    async def connected(self, url: str) -> Own: ...
    def blocking(self, url: str) -> AbstractContextManager[Any]:
        """Connect with a driver that blocks, and commits when it is told to."""
        ...

    async def link(self, url: str) -> Link:
        """Connect as a store does."""
        ...

    async def kill(self, own: Own, which: str) -> int:
        """End the connections that a question lists; say how many there were."""
        ...

    async def hold(self, own: Own) -> None:
        """Let no one else use the table of jobs until it is let go."""

    async def let_go(self, own: Own) -> None: ...
    def private(self) -> AbstractContextManager[tuple[Server, str]]:
        """Run a server of one test's own; with it goes the URL of a database that has never been migrated."""
        ...


# ---------------------------------------------------------------- PostgreSQL


class PostgresOwn:
    """A connection of asyncpg."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection: Any = connection
        self._transaction: Any = None

    async def begin(self) -> None:
        self._transaction = self.connection.transaction()
        await self._transaction.start()

    async def commit(self) -> None:
        await self._transaction.commit()

    async def rollback(self) -> None:
        await self._transaction.rollback()

    async def run(self, sql: str) -> list[Any]:
        return [tuple(row) for row in await self.connection.fetch(sql)]

    async def value(self, sql: str) -> Any:
        return await self.connection.fetchval(sql)

    async def close(self) -> None:
        await self.connection.close()


class Postgres:
    name = "postgresql"
    now = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
    ours = """SELECT pid FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'dibs'"""
    blocked = ours + " AND wait_event_type = 'Lock'"
    set_ahead = "SELECT setval('dibs_clock', {})"
    begins, commits, commits_one = b"__asyncpg", b"COMMIT", b""

    @property
    def steps(self) -> list[str]:
        return [step.name for step in postgres_migrate.steps()]

    def store(self, url: str, clock: Clock) -> PostgresStore:
        return PostgresStore(url, clock)

    def empty(self) -> str:
        return empty_postgres()

    def bare(self, name: str) -> str:
        return bare_postgres(name)

    async def connected(self, url: str) -> PostgresOwn:
        return PostgresOwn(await asyncpg.connect(url))

    def blocking(self, url: str) -> AbstractContextManager[Any]:
        return psycopg.connect(url)

    async def link(self, url: str) -> Link:
        return await postgres_link.connect(postgres_address.read(url))

    async def kill(self, own: Own, which: str) -> int:
        return len(await own.run(f"SELECT pg_terminate_backend(pid) FROM ({which}) AS found"))

    async def hold(self, own: Own) -> None:
        await own.begin()
        await own.run("LOCK TABLE dibs_job IN ACCESS EXCLUSIVE MODE")

    async def let_go(self, own: Own) -> None:
        await own.rollback()

    @contextmanager
    def private(self) -> Iterator[tuple[Server, str]]:
        with postgres.private() as server:
            yield server, server.url


# ---------------------------------------------------------------- MySQL and MariaDB


class MysqlOwn:
    """A connection of asyncmy as users have it: snapshots, and no commit unless they say so."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def begin(self) -> None:
        await self.connection.begin()

    async def commit(self) -> None:
        await self.connection.commit()

    async def rollback(self) -> None:
        await self.connection.rollback()

    async def run(self, sql: str) -> list[Any]:
        async with self.connection.cursor() as cursor:
            await cursor.execute(sql)
            return list(await cursor.fetchall())

    async def value(self, sql: str) -> Any:
        return (await self.run(sql))[0][0]

    async def close(self) -> None:
        await self.connection.ensure_closed()


async def connected(url: str, **options: Any) -> MysqlOwn:
    read = mysql_address.read(url)
    return MysqlOwn(
        await asyncmy.connect(
            host=read.host, port=read.port, user=read.user, password=read.password, database=read.database, **options
        )
    )


class Mariadb:
    name = "mysql"
    now = "SELECT CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)"
    ours = "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()"
    blocked = ours + " AND state LIKE 'Waiting for table%'"
    set_ahead = "UPDATE dibs_clock SET at = {} WHERE slot = 7"
    begins, commits, commits_one = b"START TRANSACTION", b";\nCOMMIT", b";\nCOMMIT"

    @property
    def steps(self) -> list[str]:
        return [step.name for step in mysql_migrate.steps()]

    def store(self, url: str, clock: Clock) -> MysqlStore:
        return MysqlStore(url, clock)

    def empty(self) -> str:
        return empty_mysql()

    def bare(self, name: str) -> str:
        return bare_mysql(name)

    async def connected(self, url: str) -> MysqlOwn:
        return await connected(url)

    def blocking(self, url: str) -> AbstractContextManager[Any]:
        connection: AbstractContextManager[Any] = connect_mysql(url, autocommit=False)
        return connection

    async def link(self, url: str) -> Link:
        return await mysql_link.Link.connect(mysql_address.read(url))

    async def kill(self, own: Own, which: str) -> int:
        found = await own.run(which)
        for (number,) in found:
            await own.run(f"KILL {number}")
        return len(found)

    async def hold(self, own: Own) -> None:
        await own.run("LOCK TABLES dibs_job WRITE")

    async def let_go(self, own: Own) -> None:
        await own.run("UNLOCK TABLES")

    @contextmanager
    def private(self) -> Iterator[tuple[Server, str]]:
        with mariadb.private() as server:
            connection = connect_mysql(server.url)
            connection.cursor().execute("CREATE DATABASE jobs")
            connection.close()
            yield server, urlunsplit(urlsplit(server.url)._replace(path="/jobs"))


KINDS: dict[str, Kind] = {"postgresql": Postgres(), "mariadb": Mariadb()}


async def until(own: Own, which: str) -> None:
    """Wait until a question has an answer."""
    async with asyncio.timeout(20):
        while not await own.run(which):  # noqa: ASYNC110 - the server rings no bell
            await asyncio.sleep(0.01)
