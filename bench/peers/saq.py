"""SAQ on its PostgreSQL queue: a hundred jobs at once, over psycopg's pool, in C, of its own default size.

It has no call that enqueues many at once, so its batch is as many single ones under way at a time as its pool has
connections.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from saq import Job as SaqJob  # type: ignore[import-not-found]
from saq import Worker

from bench.peers.on_server import ServerQueue
from bench.peers.program import Job, Seen, main, versions

CONCURRENCY, POOL = 100, 20
LEFT = "SELECT count(*) FROM saq_jobs WHERE status IN ('new', 'queued', 'active')"


class SaqQueue(ServerQueue):
    """What is the same on either of its stores."""

    _queue: Any

    async def close(self) -> None:
        await self._queue.disconnect()

    async def add(self, jobs: list[Job]) -> None:
        for start in range(0, len(jobs), POOL):
            await asyncio.gather(
                *(self._queue.enqueue(SaqJob("noop", kwargs=job)) for job in jobs[start : start + POOL])
            )

    async def start(self, seen: Seen) -> None:
        async def noop(_context: Any, *, to: str, subject: str, number: int) -> None:
            seen.handle(number)

        logging.getLogger("saq").setLevel(logging.ERROR)  # it would warn of being stopped
        self._worker = Worker(self._queue, [("noop", noop)], concurrency=CONCURRENCY)
        self._worker.SIGNALS = []
        self._running = asyncio.create_task(self._worker.start())

    async def stop(self) -> None:
        await self._worker.stop()
        self._running.cancel()
        await asyncio.wait([self._running])


class SaqOnPostgres(SaqQueue):
    def about(self) -> str:
        return f"{versions('saq', 'psycopg-binary', 'uvloop')}: concurrency {CONCURRENCY}, pool {POOL}"

    async def open(self) -> None:
        from saq.queue.postgres import PostgresQueue  # type: ignore[import-not-found]

        self._queue = PostgresQueue.from_url(self.url, min_size=4, max_size=POOL)
        await self._queue.connect()

    async def count(self) -> int:
        async with self._queue.pool.connection() as connection:
            [(left,)] = await (await connection.execute(LEFT)).fetchall()
        return int(left)


if __name__ == "__main__":
    main(SaqOnPostgres)
