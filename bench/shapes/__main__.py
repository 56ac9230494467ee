"""``python -m bench.shapes [JOBS]``: update in place, and in a hot table with a history, batch by batch in turns.

All have what a job of dibs has: an id, a lane, a due time, a fence and token, a lease that can be sought by its end,
a log of events, and finished jobs that can be sought by their end. No lease is extended and nothing is retried: this is
about what the tables cost by themselves. The shape that writes no log leaves it to the row: see ADR 8. Autovacuum is
off. Once nothing is held, once a snapshot is held open from the start; and each once from the beginning, once from
where the last claim ended.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import asyncpg

from bench.postgres import Postgres, serving
from bench.processor import spent
from bench.run import Broken, Run
from bench.shapes.statements import SHAPES, Shape
from bench.view import View
from dibs.stores.postgres.link import PLANS

BATCH, FIFTHS = 100, 5


class Subject:
    """One shape in a database of its own."""

    def __init__(self, shape: Shape, connection: asyncpg.Connection, *, cursor: bool) -> None:
        self.shape, self.connection, self.cursor = shape, connection, cursor
        self.place = (0, 0)
        self.backend = 0
        self.used = 0.0  # seconds of the server's processor
        self.claims: list[float] = []
        self.settles: list[float] = []

    async def step(self) -> None:
        before = spent(self.backend)
        await self._step()
        self.used += spent(self.backend) - before

    async def _step(self) -> None:
        began = time.perf_counter()
        rows = await self.connection.fetch(self.shape.claim, *self.place, BATCH)
        claimed = time.perf_counter()
        if len(rows) != BATCH:
            raise Broken(f"{self.shape.name}: claimed {len(rows)} of {BATCH}")
        if self.cursor:
            self.place = max((row["due"], row["seq"]) for row in rows)
        settling = time.perf_counter()
        settled = await self.connection.fetch(self.shape.settle, [row["id"] for row in rows])
        self.settles.append(time.perf_counter() - settling)
        self.claims.append(claimed - began)
        if len(settled) != BATCH:
            raise Broken(f"{self.shape.name}: settled {len(settled)} of {BATCH}")

    def line(self, about: str) -> str:
        size = len(self.claims) // FIFTHS
        fifths = (median(self.claims[start * size : (start + 1) * size]) * 1e3 for start in range(FIFTHS))
        told = " ".join(f"{value:7.2f}" for value in fifths)
        rate = BATCH * len(self.claims) / (sum(self.claims) + sum(self.settles))
        name = f"{self.shape.name}{', from the last place' if self.cursor else ''}"
        cost = 1e6 * self.used / (BATCH * len(self.claims))
        return f"| {about} | {name} | {told} | {1e3 * median(self.settles):.2f} | {rate:,.0f} | {cost:.1f} |"


async def compare(server: Postgres, jobs: int, *, held: bool) -> None:
    about = "a snapshot held" if held else "nothing held"
    subjects: list[Subject] = []
    databases = [server.database() for _ in range(2 * len(SHAPES))]
    holders: list[asyncpg.Connection] = []
    wanted = [(shape, cursor) for shape in SHAPES for cursor in (False, True)]
    for (shape, cursor), database in zip(wanted, databases, strict=True):
        url = await database.__aenter__()
        connection = await asyncpg.connect(url, server_settings=PLANS)
        await connection.execute(shape.schema)
        await connection.execute(shape.fill, jobs)
        subject = Subject(shape, connection, cursor=cursor)
        subject.backend = await connection.fetchval("SELECT pg_backend_pid()")
        subjects.append(subject)
        if held:
            holder = await asyncpg.connect(url)
            await holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            await holder.fetch("SELECT 1 FROM pg_class LIMIT 1")
            holders.append(holder)
    for number in range(jobs // BATCH):
        shift = number % len(subjects)
        for subject in subjects[shift:] + subjects[:shift]:
            await subject.step()
    for subject in subjects:
        print(subject.line(about), flush=True)
        await subject.connection.close()
    for holder in holders:
        await holder.close()
    for database in databases:
        await database.__aexit__(None, None, None)


async def main(jobs: int) -> None:
    with tempfile.TemporaryDirectory(prefix="dibs-shapes-") as folder, View() as view:
        async with serving(Run(Path(folder), view)) as server:
            print(f"| | shape | claim of {BATCH}, p50 ms, by fifths | settle, p50 ms | both, a second | µs a job |")
            print("|---|---|---|---|---|---|")
            for held in (False, True):
                await compare(server, jobs, held=held)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000))
