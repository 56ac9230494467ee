"""Claim and settle on PostgreSQL, by 100 beside the bare driver; and ten who claim one job at a time."""

from __future__ import annotations

from bench import bare_postgres
from bench.cases.beside import beside
from bench.postgres import serving
from bench.run import Run


async def batch(run: Run) -> None:
    async with serving(run) as server:
        await beside(run, "postgres-batch", server, "bare asyncpg", bare_postgres.drain)
