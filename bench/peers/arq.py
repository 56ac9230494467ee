"""arq: a hundred jobs at once, a look every ten milliseconds; no results, and no line of log for each job.

It has no call that enqueues many at once, so its batch is so many single ones under way at a time.
"""

from __future__ import annotations

import asyncio
from typing import Any

from arq.connections import RedisSettings, create_pool  # type: ignore[import-not-found]
from arq.worker import Worker, func  # type: ignore[import-not-found]

from bench.peers.on_server import ServerQueue
from bench.peers.program import Job, Seen, main, versions

JOBS, POLL, AT_ONCE = 100, 0.01, 20


class ArqQueue(ServerQueue):
    def about(self) -> str:
        return f"{versions('arq', 'redis', 'hiredis', 'uvloop')}: max_jobs {JOBS}, looks every {1e3 * POLL:g} ms"

    async def open(self) -> None:
        self._pool = await create_pool(RedisSettings.from_dsn(self.url))

    async def close(self) -> None:
        await self._pool.aclose()

    async def add(self, jobs: list[Job]) -> None:
        for start in range(0, len(jobs), AT_ONCE):
            await asyncio.gather(*(self._pool.enqueue_job("noop", **job) for job in jobs[start : start + AT_ONCE]))

    async def count(self) -> int:
        return int(await self._pool.zcard(self._pool.default_queue_name))

    async def start(self, seen: Seen) -> None:
        async def noop(_context: Any, *, to: str, subject: str, number: int) -> None:
            seen.handle(number)

        self._worker = Worker(
            [func(noop, name="noop")],
            redis_settings=RedisSettings.from_dsn(self.url),
            max_jobs=JOBS,
            poll_delay=POLL,
            keep_result=0,
            log_results=False,
            handle_signals=False,
        )
        self._running = asyncio.create_task(self._worker.async_run())

    async def stop(self) -> None:
        self._running.cancel()
        await asyncio.wait([self._running])
        await self._worker.close()


if __name__ == "__main__":
    main(ArqQueue)
