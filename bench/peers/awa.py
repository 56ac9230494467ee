"""awa: its own Rust runtime under Python handlers, with room for 1,024 jobs at once; enqueued by COPY.

What is left is counted in its own tables: its call for that is told by figures of some seconds ago, and its view of all
jobs takes minutes for some thousands.
"""

from __future__ import annotations

from dataclasses import dataclass

import asyncpg
import awa  # type: ignore[import-not-found]

from bench.peers.on_server import ServerQueue
from bench.peers.program import Job, Seen, main, versions

WORKERS, POOL = 1024, 20
LEFT = """
SELECT (SELECT count(*) FROM awa.ready_entries)
  - (SELECT coalesce(sum(completed_count), 0) FROM awa.receipt_completion_batches)
"""


@dataclass
class Noop:
    to: str
    subject: str
    number: int


class AwaQueue(ServerQueue):
    def about(self) -> str:
        return f"{versions('awa-pg', 'uvloop')}: {WORKERS} workers, pool {POOL}, enqueue_many_copy"

    async def open(self) -> None:
        self._client = awa.AsyncClient(self.url, POOL)
        await self._client.migrate()
        await self._client.install_queue_storage()  # its newer, quicker storage, which COPY needs

        self._look = await asyncpg.connect(self.url)

    async def close(self) -> None:
        await self._look.close()
        await self._client.close()

    async def add(self, jobs: list[Job]) -> None:
        if len(jobs) == 1:
            await self._client.insert(Noop(**jobs[0]))
        else:
            await self._client.enqueue_many_copy([Noop(**job) for job in jobs])

    async def count(self) -> int:
        return int(await self._look.fetchval(LEFT))

    async def start(self, seen: Seen) -> None:
        @self._client.task(Noop)  # type: ignore[untyped-decorator]
        async def noop(job) -> None:  # type: ignore[no-untyped-def]
            seen.handle(job.args.number)

        await self._client.start([("default", WORKERS)])

    async def stop(self) -> None:
        await self._client.shutdown()


if __name__ == "__main__":
    main(AwaQueue)
