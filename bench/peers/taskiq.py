"""Taskiq on its stream broker, which acknowledges: a hundred async tasks at once, no result backend.

It has no call that enqueues many at once, so its batch is so many single ones under way at a time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from taskiq.api import run_receiver_task  # type: ignore[import-not-found]
from taskiq_redis import RedisStreamBroker  # type: ignore[import-not-found]

from bench.peers.on_server import ServerQueue
from bench.peers.program import Job, Seen, main, versions

TASKS, AT_ONCE = 100, 50
STOP = 5.0
"""Seconds that it is given to end, when all was handled and counted."""


class TaskiqQueue(ServerQueue):
    _running: asyncio.Task[None] | None = None

    def about(self) -> str:
        return f"{versions('taskiq', 'taskiq-redis', 'hiredis', 'uvloop')}: RedisStreamBroker, {TASKS} async tasks"

    async def open(self) -> None:
        logging.getLogger("taskiq").setLevel(logging.ERROR)  # it would warn of being stopped
        self._broker = RedisStreamBroker(self.url)
        self._seen = Seen(0)

        @self._broker.task(task_name="noop")  # type: ignore[untyped-decorator]
        async def noop(to: str, subject: str, number: int) -> None:
            self._seen.handle(number)

        self._noop = noop
        await self._broker.startup()

    async def close(self) -> None:
        await self._broker.shutdown()

    async def add(self, jobs: list[Job]) -> None:
        for start in range(0, len(jobs), AT_ONCE):
            await asyncio.gather(*(self._noop.kiq(**job) for job in jobs[start : start + AT_ONCE]))

    async def count(self) -> int:
        """What was not yet read, and what was read and not yet acknowledged."""
        from redis.asyncio import Redis

        async with Redis(connection_pool=self._broker.connection_pool) as client:
            [group] = await client.xinfo_groups(self._broker.queue_name)
        return int(group["lag"]) + int(group["pending"])

    async def start(self, seen: Seen) -> None:
        self._seen = seen
        self._running = asyncio.create_task(run_receiver_task(self._broker, max_async_tasks=TASKS))

    async def stop(self) -> None:
        assert self._running is not None
        self._running.cancel()
        await asyncio.wait([self._running], timeout=STOP)

    def _end(self) -> None:
        if self._running is not None and not self._running.done():
            sys.stdout.flush()
            os._exit(0)  # now and then it waits for its last read without end, and whoever closes the loop with it
        super()._end()


if __name__ == "__main__":
    main(TaskiqQueue)
