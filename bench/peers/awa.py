"""awa: its own Rust runtime under Python handlers, with room for 1,024 jobs at once; enqueued by COPY.

Smaller numbers of workers were slower here, larger ones not faster.
"""

from __future__ import annotations

from dataclasses import dataclass

import awa  # type: ignore[import-not-found]

from bench.peers.on_postgres import PostgresQueue, versions
from bench.peers.program import Job, Seen, main

WORKERS, POOL = 1024, 20


@dataclass
class Noop:
    to: str
    subject: str
    number: int


class AwaQueue(PostgresQueue):
    def about(self) -> str:
        return f"{versions('awa-pg', 'uvloop')}: {WORKERS} workers, pool {POOL}, enqueue_many_copy"

    async def open(self) -> None:
        self._client = awa.AsyncClient(self.url, POOL)
        await self._client.migrate()
        await self._client.install_queue_storage()  # its newer, quicker storage, which COPY needs

    async def close(self) -> None:
        await self._client.close()

    async def add(self, jobs: list[Job]) -> None:
        if len(jobs) == 1:
            await self._client.insert(Noop(**jobs[0]))
        else:
            await self._client.enqueue_many_copy([Noop(**job) for job in jobs])

    async def count(self) -> int:
        stats = await self._client.queue_stats()
        return sum(stat.scheduled + stat.available + stat.retryable + stat.running for stat in stats)

    async def start(self, seen: Seen) -> None:
        @self._client.task(Noop)  # type: ignore[untyped-decorator]
        async def noop(job) -> None:  # type: ignore[no-untyped-def]
            seen.handle(job.args.number)

        await self._client.start([("default", WORKERS)])

    async def stop(self) -> None:
        await self._client.shutdown()


if __name__ == "__main__":
    main(AwaQueue)
