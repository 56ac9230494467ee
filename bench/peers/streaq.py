"""streaq: a hundred jobs at once, over coredis, with its results kept as it does by itself."""

from __future__ import annotations

import asyncio

from streaq import Worker  # type: ignore[import-not-found]

from bench.peers.on_server import ServerQueue
from bench.peers.program import Job, Seen, main, versions

CONCURRENCY = 100


class StreaqQueue(ServerQueue):
    def about(self) -> str:
        return f"{versions('streaq', 'coredis', 'uvloop')}: concurrency {CONCURRENCY}"

    async def open(self) -> None:
        self._seen = Seen(0)
        self._client, self._noop = self._made()
        self._ready, self._over = asyncio.Event(), asyncio.Event()
        self._holding = asyncio.create_task(self._hold())
        await self._ready.wait()

    async def _hold(self) -> None:
        """Keep the client open, in one task from beginning to end: it demands that."""
        async with self._client:
            self._ready.set()
            await self._over.wait()

    async def close(self) -> None:
        self._over.set()
        await self._holding

    async def add(self, jobs: list[Job]) -> None:
        if len(jobs) == 1:
            await self._noop.enqueue(**jobs[0])
        else:
            await self._client.enqueue_many([self._noop.enqueue(**job) for job in jobs])

    async def count(self) -> int:
        return int(await self._client.queue_size())

    async def start(self, seen: Seen) -> None:
        self._seen = seen
        worker, _ = self._made()
        self._running = asyncio.create_task(worker.run_async())

    async def stop(self) -> None:
        self._running.cancel()
        await asyncio.wait([self._running])

    def _made(self):  # type: ignore[no-untyped-def]
        worker = Worker(redis_url=self.url, concurrency=CONCURRENCY, handle_signals=False)

        @worker.task(name="noop")  # type: ignore[untyped-decorator]
        async def noop(to: str, subject: str, number: int) -> None:
            self._seen.handle(number)

        return worker, noop


if __name__ == "__main__":
    main(StreaqQueue)
