"""The servers that the soak and the fault tests may hurt. A store joins by adding one: a server of its own.

What every server can suffer is a method; what only some can is among its ``troubles``, by name.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import psycopg
import pymysql
import redis as driver

from dibs.clock import Clock
from dibs.stores.mysql import MysqlStore
from dibs.stores.postgres import PostgresStore
from soak.disks import Disk, folder_of
from tests.servers import mariadb, postgres, redis
from tests.servers.databases import connect_mysql
from tests.servers.proxy import Proxy

Trouble = Callable[[], AbstractAsyncContextManager[object]]
"""Something that lasts for as long as it is entered."""


class Place(Protocol):
    """Where jobs are kept, and what can happen to it."""

    url: str
    """Of its database, migrated; straight to it."""
    options: str
    """What is added to the URL of those who work: above all how long a server's silence is believed."""

    @property
    def troubles(self) -> Mapping[str, Trouble]:
        """What can happen to this make, and not to every other."""
        ...

    async def prepare(self) -> None:
        """Make the database empty and ready."""


class Subject(Place, Protocol):
    """A server, and what can be done to it."""

    notice: float
    """Seconds after which a server that says nothing has been noticed, with those options."""
    commits: bytes
    """What a client sends to commit a transaction of several statements; empty: it sends nothing of the kind."""

    def stop(self, mode: str) -> None: ...
    def start(self) -> None: ...
    async def kill(self) -> int:
        """End every connection that dibs has to it; say how many there were."""
        ...

    def seen(self) -> list[str]:
        """Tell what its connections are at, as the server sees it: for a test that has waited in vain."""
        ...


class _Stoppable(Protocol):
    def is_running(self) -> bool: ...
    def start(self) -> None: ...


def full_disk(disk: Disk | None, server: _Stoppable) -> dict[str, Trouble]:
    """Make that trouble for a server whose files are on a disk of their own."""

    @asynccontextmanager
    async def full() -> AsyncIterator[None]:
        """Let there be no room; a server that has stopped for that is started when there is."""
        assert disk is not None
        async with disk.full():
            yield
        if not await asyncio.to_thread(server.is_running):
            await asyncio.to_thread(server.start)

    return {} if disk is None else {"disk_full": full}


_SEEN = """SELECT pid, state, wait_event, pg_blocking_pids(pid), clock_timestamp() - xact_start,
  clock_timestamp() - state_change, left(query, 80)
  FROM pg_stat_activity WHERE application_name = 'dibs' ORDER BY xact_start"""


_KILL = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'dibs'"


ServerT = TypeVar("ServerT", postgres.Server, mariadb.Server, redis.Server)


class _OnServer(Generic[ServerT]):
    """On a server of its own, and the disk that it may fill."""

    options = "?timeout=2"
    notice = 2.0

    def __init__(self, server: ServerT, disk: Disk | None = None) -> None:
        self._server: ServerT = server
        self._disk = disk
        self.url = server.url

    def stop(self, mode: str) -> None:
        self._server.stop(mode)

    def start(self) -> None:
        self._server.start()


class Postgres(_OnServer[postgres.Server]):
    commits = b"COMMIT;"

    async def prepare(self) -> None:
        connection = await asyncpg.connect(self.url)
        await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        await connection.close()
        await PostgresStore(self.url, Clock()).migrate()

    async def kill(self) -> int:
        connection = await asyncpg.connect(self.url)
        killed = await connection.fetchval(_KILL)
        await connection.close()
        return int(killed)

    def seen(self) -> list[str]:
        with psycopg.connect(self.url) as connection:
            return [str(row) for row in connection.execute(_SEEN).fetchall()]

    @property
    def troubles(self) -> Mapping[str, Trouble]:
        found: dict[str, Trouble] = {"held_snapshot": self._snapshot, "no_connections": self._crowd}
        return found | full_disk(self._disk, self._server)

    @asynccontextmanager
    async def _snapshot(self) -> AsyncIterator[None]:
        """Let no dead row be removed, as a long report or a forgotten session would."""
        connection = await asyncpg.connect(self.url)
        await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM dibs_job")
        yield
        await connection.close()

    @asynccontextmanager
    async def _crowd(self) -> AsyncIterator[None]:
        """Take every connection that the server has to give, dibs's among them."""
        over = threading.Event()
        taking = asyncio.ensure_future(asyncio.to_thread(self._take, over))
        try:
            yield
        finally:
            over.set()
            await taking

    def _take(self, over: threading.Event) -> None:
        """Race: what dibs was made to give up it may have again before we do; so this goes on."""
        with ExitStack() as taken:
            operator = taken.enter_context(psycopg.connect(self.url, autocommit=True))
            while not over.is_set():
                try:
                    taken.enter_context(psycopg.connect(self.url))
                except psycopg.OperationalError:  # there is none left
                    operator.execute(_KILL)


class Mariadb(_OnServer[mariadb.Server]):
    commits = b";\nCOMMIT"

    def __init__(self, server: mariadb.Server, disk: Disk | None = None) -> None:
        super().__init__(server, disk)
        self.url = urlunsplit(urlsplit(server.url)._replace(path="/jobs"))

    async def prepare(self) -> None:
        with self._operator() as cursor:
            for statement in ("DROP DATABASE IF EXISTS jobs", "CREATE DATABASE jobs"):
                cursor.execute(statement)
        await MysqlStore(self.url, Clock()).migrate()

    async def kill(self) -> int:
        return await asyncio.to_thread(self._kill)

    def _kill(self) -> int:
        with self._operator() as cursor:
            return self._kill_from(cursor)

    @staticmethod
    def _kill_from(cursor: Any) -> int:
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

    @property
    def troubles(self) -> Mapping[str, Trouble]:
        found: dict[str, Trouble] = {"held_snapshot": self._snapshot, "no_connections": self._crowd}
        return found | full_disk(self._disk, self._server)

    @asynccontextmanager
    async def _snapshot(self) -> AsyncIterator[None]:
        """Let nothing that was changed be purged, as a long report or a forgotten session would."""
        with self._operator() as cursor:
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            cursor.execute("SELECT count(*) FROM jobs.dibs_job")
            yield

    @asynccontextmanager
    async def _crowd(self) -> AsyncIterator[None]:
        """Take every connection that the server has to give."""
        with self._operator() as cursor:  # one more is always left for who may do everything
            cursor.execute("SELECT @@max_connections")
            [(before,)] = cursor.fetchall()
            cursor.execute("SET GLOBAL max_connections = 10")
            try:
                with ExitStack() as stack:
                    await asyncio.to_thread(self._take, cursor, stack)
                    yield
            finally:
                cursor.execute(f"SET GLOBAL max_connections = {before}")

    def _take(self, cursor: Any, stack: ExitStack) -> None:
        """Race: what dibs was made to give up it may have again before we do; then it is made to once more."""
        end = time.monotonic() + 2.0
        while self._kill_from(cursor) and time.monotonic() < end:
            with suppress(pymysql.OperationalError):  # there is none left
                while True:
                    stack.enter_context(connect_mysql(self._server.url))


@contextmanager
def postgresql(disk: Disk | None = None) -> Iterator[Subject]:
    settings = {"max_connections": "60"}  # few enough to take them all in a moment
    with postgres.private(settings, within=folder_of(disk)) as server:
        yield Postgres(server, disk)


@contextmanager
def mysql(disk: Disk | None = None) -> Iterator[Subject]:
    with mariadb.private(within=folder_of(disk)) as server:
        yield Mariadb(server, disk)


def end_ours(client: driver.Redis) -> int:
    """End every connection that dibs has to a Redis server, on a connection to it; say how many there were."""
    ours = [each["id"] for each in client.client_list() if each["name"] == "dibs"]
    return sum(client.client_kill_filter(_id=id) for id in ours)


class Redis(_OnServer[redis.Server]):
    commits = b"EVALSHA"  # a script is done whole

    async def prepare(self) -> None:
        await asyncio.to_thread(self._server.ask, "FLUSHALL")

    async def kill(self) -> int:
        with driver.Redis(port=self._server.port) as client:
            return await self._kill_from(client)

    async def _kill_from(self, client: driver.Redis) -> int:
        return await asyncio.to_thread(end_ours, client)

    def seen(self) -> list[str]:
        with driver.Redis(port=self._server.port) as client:
            return [str({name: each[name] for name in ("id", "name", "idle", "cmd")}) for each in client.client_list()]

    @property
    def troubles(self) -> Mapping[str, Trouble]:
        found: dict[str, Trouble] = {"no_connections": self._crowd, "memory_full": self._fill}
        return found | full_disk(self._disk, self._server)

    @asynccontextmanager
    async def _crowd(self) -> AsyncIterator[None]:
        """Let no one connect any more, and end who is connected."""
        with driver.Redis(port=self._server.port, single_connection_client=True) as client:
            before = client.config_get("maxclients")["maxclients"]
            client.config_set("maxclients", 1)
            await self._kill_from(client)
            try:
                yield
            finally:
                client.config_set("maxclients", before)

    @asynccontextmanager
    async def _fill(self) -> AsyncIterator[None]:
        """Let it have no memory for anything new; it evicts nothing."""
        await asyncio.to_thread(self._server.ask, "CONFIG", "SET", "maxmemory", 1)
        try:
            yield
        finally:
            await asyncio.to_thread(self._server.ask, "CONFIG", "SET", "maxmemory", 0)


@contextmanager
def redis_(disk: Disk | None = None) -> Iterator[Subject]:
    with redis.private(redis.DURABLE, within=folder_of(disk)) as server:
        yield Redis(server, disk)


SUBJECTS: dict[str, Callable[..., AbstractContextManager[Subject]]] = {
    "postgresql": postgresql,
    "mariadb": mysql,
    "redis": redis_,
}


@contextmanager
def behind_a_proxy(subject: Subject) -> Iterator[Proxy]:
    with Proxy.of(subject.url) as proxy:
        yield proxy
