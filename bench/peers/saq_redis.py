"""SAQ on its Redis queue: a hundred jobs at once; its batch is twenty single ones at a time, its own limit."""

from __future__ import annotations

from redis.asyncio import Redis
from saq.queue.redis import RedisQueue  # type: ignore[import-not-found]

from bench.peers.program import Seen, main, versions
from bench.peers.saq import CONCURRENCY, POOL, SaqQueue


class SaqOnRedis(SaqQueue):
    def about(self) -> str:
        return f"{versions('saq', 'redis', 'hiredis', 'uvloop')}: Redis, concurrency {CONCURRENCY}, {POOL} at once"

    async def open(self) -> None:
        # Each of the hundred waits on a connection of its own.
        client = Redis.from_url(self.url, max_connections=CONCURRENCY + 2 * POOL)
        self._queue = RedisQueue(client, max_concurrent_ops=POOL)

    async def start(self, seen: Seen) -> None:
        # Its worker sweeps as it starts, and may take a job that it has just fetched for a stuck one, and run it twice.
        # Swept now, when there is none, it does not do so again before the hour is over.
        await self._queue.sweep(lock=3600)
        await super().start(seen)

    async def count(self) -> int:
        return int(await self._queue.count("incomplete"))


if __name__ == "__main__":
    main(SaqOnRedis)
