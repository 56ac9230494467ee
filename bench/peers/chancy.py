"""Chancy: its async executor, a hundred jobs at once, with eager polling, over psycopg's pool, in C.

It writes completions once a second, which would be told against it when little is left: here it is ten times a second.
A line of log for every job is left out.
"""

from __future__ import annotations

import logging

from chancy import Chancy, Queue, Worker  # type: ignore[import-not-found]
from chancy import Job as ChancyJob

from bench.peers import chancy_task
from bench.peers.on_server import ServerQueue
from bench.peers.program import Job, Seen, main, versions

CONCURRENCY, POOL = 100, 20
NAME = "bench.peers.chancy_task.noop"
LEFT = "SELECT count(*) FROM chancy_jobs WHERE state IN ('pending', 'running', 'retrying')"


class ChancyQueue(ServerQueue):
    def about(self) -> str:
        return (
            f"{versions('chancy', 'psycopg-binary', 'uvloop')}: async executor, concurrency {CONCURRENCY}, "
            f"eager polling, pool {POOL}"
        )

    async def open(self) -> None:
        log = logging.getLogger("chancy")
        log.setLevel(logging.WARNING)
        self._chancy = Chancy(self.url, min_connection_pool_size=2, max_connection_pool_size=POOL, log=log)
        await self._chancy.__aenter__()
        await self._chancy.migrate()
        await self._chancy.declare(
            Queue(
                "default",
                concurrency=CONCURRENCY,
                executor=Chancy.Executor.Async,
                polling_interval=1,
                eager_polling=True,
            ),
            upsert=True,
        )

    async def close(self) -> None:
        await self._chancy.__aexit__(None, None, None)

    async def add(self, jobs: list[Job]) -> None:
        made = [ChancyJob(func=NAME, kwargs=job, queue="default") for job in jobs]
        if len(made) == 1:
            await self._chancy.push(made[0])
        else:
            async for _ in self._chancy.push_many(made):
                pass

    async def count(self) -> int:
        async with self._chancy.pool.connection() as connection, connection.cursor() as cursor:
            await cursor.execute(LEFT)
            return int((await cursor.fetchone())[0])

    async def start(self, seen: Seen) -> None:
        chancy_task.watched.append(seen)
        self._worker = Worker(self._chancy, register_signal_handlers=False)
        self._worker.send_outgoing_interval = 0.1
        await self._worker.__aenter__()

    async def stop(self) -> None:
        await self._worker.__aexit__(None, None, None)


if __name__ == "__main__":
    main(ChancyQueue)
