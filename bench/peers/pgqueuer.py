"""PgQueuer: its queue manager over an asyncpg pool, a hundred jobs to a batch.

Its own benchmark runs it so. Finished jobs move to its log table, completions are buffered and written by the batch.
It fetches on while handlers run, without a limit unless one is set: none is, as that is its fastest.
"""

from __future__ import annotations

import asyncio
import json

import asyncpg
from pgqueuer.core.qm import QueueManager  # type: ignore[import-not-found]
from pgqueuer.db import AsyncpgPoolDriver  # type: ignore[import-not-found]
from pgqueuer.queries import Queries  # type: ignore[import-not-found]

from bench.peers.on_server import ServerQueue
from bench.peers.program import Job, Seen, main, versions

BATCH, POOL = 100, 10


class PgQueuerQueue(ServerQueue):
    def about(self) -> str:
        return f"{versions('pgqueuer', 'asyncpg', 'uvloop')}: batch_size {BATCH}, pool {POOL}"

    async def open(self) -> None:
        self._pool = await asyncpg.create_pool(self.url, min_size=2, max_size=POOL)
        self._queries = Queries(AsyncpgPoolDriver(self._pool))
        if not await self._queries.schema_is_installed():
            await self._queries.install()

    async def close(self) -> None:
        self._pool.terminate()

    async def add(self, jobs: list[Job]) -> None:
        payloads = [json.dumps(job).encode() for job in jobs]
        await self._queries.enqueue(["noop"] * len(jobs), payloads, [0] * len(jobs))

    async def count(self) -> int:
        return sum(found.count for found in await self._queries.queue_size())

    async def start(self, seen: Seen) -> None:
        self._manager = manager = QueueManager(self._queries)

        @manager.entrypoint("noop")  # type: ignore[untyped-decorator]
        async def noop(job) -> None:  # type: ignore[no-untyped-def]
            seen.handle(json.loads(job.payload)["number"])

        self._running = asyncio.create_task(manager.run(batch_size=BATCH))

    async def stop(self) -> None:
        self._manager.shutdown.set()
        await self._running


if __name__ == "__main__":
    main(PgQueuerQueue)
