"""What idle workers cost the database: statements a second, all of them counted by the server."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import AsyncExitStack

import asyncpg

from bench.children import started
from bench.postgres import serving
from bench.run import Run

CASE = "postgres-idle"
WORKERS = 50
AT_MOST = 100.0
WARM_UP = 8.0
"""Seconds until all have begun and have looked for what they look for at first."""
COUNTED = """
SELECT sum(calls) FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


async def idle(run: Run) -> None:
    seconds = run.size(20, 10)
    async with serving(run) as server:
        for processes in (1, 10, WORKERS):
            async with server.database(migrated=True) as url:
                rate = await _statements(url, processes, WORKERS // processes, seconds)
            about = f"{processes} processes × {WORKERS // processes} workers"
            run.figure(CASE, f"dibs postgres, {about}", "statements while nothing waits", "/s", [rate])
            run.bar(
                f"{CASE}-{processes}",
                f"PostgreSQL: {about} that have nothing to do, statements in all",
                "/s",
                [rate],
                at_most=AT_MOST,
            )


async def _statements(url: str, processes: int, workers: int, seconds: float) -> float:
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
    try:
        async with AsyncExitStack() as stack:
            command = (sys.executable, "-m", "bench.idle", url, str(workers))
            children = [await stack.enter_async_context(started("idle workers", *command)) for _ in range(processes)]
            for child in children:
                await child.line()  # its workers have begun to wait
            await asyncio.sleep(WARM_UP)
            before, began = await _count(connection), time.monotonic()
            await asyncio.sleep(seconds)
            after, ended = await _count(connection), time.monotonic()
            for child in children:
                child.stop()
        return (after - before - 1) / (ended - began)  # one of them is ours
    finally:
        await connection.close()


async def _count(connection: asyncpg.Connection) -> int:
    return int(await connection.fetchval(COUNTED) or 0)
