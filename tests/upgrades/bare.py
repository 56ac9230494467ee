"""Statements on a store's database, beside dibs."""

from typing import Any

import apsw
import asyncpg

from tests.servers.databases import connect_mysql


async def ask(url: str, sql: str) -> list[tuple[Any, ...]]:
    """Run one statement, and give its rows."""
    if url.startswith("sqlite:"):
        with apsw.Connection(url.removeprefix("sqlite:///")) as connection:
            connection.set_busy_timeout(10_000)
            return list(connection.execute(sql))
    if url.startswith("postgresql:"):
        own = await asyncpg.connect(url)
        rows = [tuple(row) for row in await own.fetch(sql)]
        await own.close()
        return rows
    with connect_mysql(url) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())
