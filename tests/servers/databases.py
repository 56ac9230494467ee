"""An empty database for each test, migrated where it has a schema: one for each process of a run, emptied between."""

import asyncio
import atexit
import os
from contextlib import suppress
from functools import cache
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pymysql
import redis as driver
from pymysql.constants import CLIENT

from dibs.clock import Clock
from dibs.stores.mysql import MysqlStore, address
from dibs.stores.postgres import PostgresStore
from tests.servers import cluster, mariadb, postgres, redis, valkey

_TABLES = "dibs_job, dibs_event, dibs_lane, dibs_tombstone, dibs_tag, dibs_document"


def empty_postgres() -> str:
    """Give the URL of this process's database, with nothing in it."""
    url = _database()
    asyncio.run(_empty(url))
    return url


def bare_postgres(name: str) -> str:
    """Give the URL of a new database that has never been migrated."""
    return asyncio.run(_create(postgres.shared(), f"dibs_{name}_{os.getpid()}"))


@cache
def _database() -> str:
    url = bare_postgres("test")
    asyncio.run(PostgresStore(url, Clock()).migrate())
    return url


async def _create(server: str, name: str) -> str:
    connection = await asyncpg.connect(server)
    await connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
    await connection.execute(f'CREATE DATABASE "{name}"')
    await connection.close()
    return urlunsplit(urlsplit(server)._replace(path=f"/{name}"))


async def _empty(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(
        "SET lock_timeout = '5s'; "
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'; "
        f"TRUNCATE {_TABLES}, dibs_name RESTART IDENTITY; SELECT setval('dibs_clock', 0)"
    )
    await connection.close()


# MySQL and MariaDB


def empty_mysql() -> str:
    """Give the URL of this process's database, with nothing in it."""
    url = _mysql()
    keeper = _keeper(os.getpid())
    try:
        keeper.ping(reconnect=False)
    except pymysql.MySQLError:  # a test has killed every connection
        keeper.connect()
    with keeper.cursor() as cursor:
        cursor.execute("SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()")
        for (number,) in cursor.fetchall():
            with suppress(pymysql.OperationalError):  # it has just ended by itself
                cursor.execute(f"KILL {number}")
        emptied = [f"DELETE FROM {table}" for table in _TABLES.split(", ")]  # quicker than TRUNCATE, as there is little
        cursor.execute("; ".join([*emptied, "UPDATE dibs_clock SET at = 0"]))
        while cursor.nextset():
            pass
    return url


@cache
def _keeper(_pid: int) -> Any:
    return connect_mysql(_mysql(), client_flag=CLIENT.MULTI_STATEMENTS)


def bare_mysql(name: str) -> str:
    """Give the URL of a new database that has never been migrated, and is dropped at the end of the run."""
    server, database = mariadb.shared(), f"dibs_{name}_{os.getpid()}"
    _on_mysql(server, f"DROP DATABASE IF EXISTS `{database}`", f"CREATE DATABASE `{database}`")
    atexit.register(_drop, server, database)
    return urlunsplit(urlsplit(server)._replace(path=f"/{database}"))


def connect_mysql(url: str, **options: Any) -> Any:
    """Connect with PyMySQL, committing each statement unless told otherwise."""
    read = address.read(url)
    return pymysql.connect(
        host=read.host,
        port=read.port,
        user=read.user,
        password=read.password,
        database=read.database,
        **{"autocommit": True, **options},
    )


@cache
def _mysql() -> str:
    url = bare_mysql("test")
    asyncio.run(MysqlStore(url, Clock()).migrate())
    return url


def _on_mysql(server: str, *statements: str) -> None:
    connection = connect_mysql(server)
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    connection.close()


def _drop(server: str, database: str) -> None:
    try:
        _on_mysql(server, f"DROP DATABASE IF EXISTS `{database}`")
    except pymysql.MySQLError:  # the server has ended before us
        return


# Redis and Valkey


def empty_redis() -> str:
    """Give the URL of this process's database on the run's Redis, with nothing in it and no one else in it."""
    return _emptied(_numbered(redis.shared(), os.getpid()))


def empty_valkey() -> str:
    """Give the same on the run's Valkey."""
    return _emptied(_numbered(valkey.shared(), os.getpid()))


def bare_redis(name: str) -> str:
    """Give the URL of this process's database on the run's Redis with a prefix of that name, which no key has yet."""
    url = _numbered(redis.shared(), os.getpid())
    with driver.Redis.from_url(url) as client:
        for key in client.scan_iter(match=f"{name}:*", count=1000):
            client.unlink(key)
    return f"{url}?prefix={name}"


@cache
def _numbered(server: str, _pid: int) -> str:
    """Take the next database of the server: its first one counts how many were taken."""
    with driver.Redis.from_url(server) as client:
        databases = int(client.config_get("databases")["databases"])
        number = 1 + int(client.incr("dibs-tests")) % (databases - 1)
    return urlunsplit(urlsplit(server)._replace(path=f"/{number}"))


def _emptied(url: str) -> str:
    number = urlsplit(url).path.removeprefix("/")
    with driver.Redis.from_url(url) as client:
        own = client.client_id()
        for other in client.client_list():
            if other["db"] == number and int(other["id"]) != own:
                client.client_kill_filter(_id=other["id"])
        client.flushdb()
    return url


def empty_cluster() -> str:
    """Give the URL of the run's cluster with a prefix of this process's own, under which there is nothing.

    Who was connected before is not known there, and stays: a test closes what it opens.
    """
    return bare_cluster("t")


def bare_cluster(name: str) -> str:
    """Give the URL of the run's cluster with a prefix of that name and this process's own, which no key has yet."""
    url, prefix = urlsplit(cluster.shared()), f"{name}{os.getpid()}"
    keeper = _cluster_keeper(url._replace(scheme="redis").geturl(), os.getpid())
    for node in keeper.get_primaries():
        client = keeper.get_redis_connection(node)
        with client.pipeline(transaction=False) as pipeline:  # one call a key: they are of different slots
            for key in client.scan_iter(match=f"{prefix}:*", count=1000):
                pipeline.unlink(key)
            pipeline.execute()
    query = f"{url.query}&prefix={prefix}".removeprefix("&")
    return urlunsplit(url._replace(query=query))


@cache
def _cluster_keeper(url: str, _pid: int) -> Any:
    return driver.RedisCluster.from_url(url)
