"""An empty, migrated database for each test: one for each process of the run, emptied between tests."""

import asyncio
import atexit
import os
from contextlib import suppress
from functools import cache
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pymysql
from pymysql.constants import CLIENT

from dibs.clock import Clock
from dibs.stores.mysql import MysqlStore, address
from dibs.stores.postgres import PostgresStore
from tests.servers import mariadb, postgres

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
        f"TRUNCATE {_TABLES} RESTART IDENTITY; SELECT setval('dibs_clock', 0)"
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
