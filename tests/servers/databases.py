"""An empty, migrated database for each test: one for each process of the run, emptied between tests."""

import asyncio
import os
from functools import cache
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from dibs.clock import Clock
from dibs.stores.postgres import PostgresStore
from tests.servers import postgres

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
