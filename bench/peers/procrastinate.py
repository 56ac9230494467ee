"""Procrastinate: its worker with a hundred jobs at once, over psycopg's pool, in C.

Finished jobs are kept, as it does unless told otherwise, and as dibs does.
"""

from __future__ import annotations

import asyncio

import procrastinate  # type: ignore[import-not-found]

from bench.peers.on_server import ServerQueue
from bench.peers.program import Job, Seen, main, versions

CONCURRENCY, POOL = 100, 20
INSTALLED = "SELECT to_regclass('procrastinate_jobs') IS NOT NULL AS there"
LEFT = "SELECT count(*) AS number FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"


class ProcrastinateQueue(ServerQueue):
    def about(self) -> str:
        return f"{versions('procrastinate', 'psycopg-binary', 'uvloop')}: concurrency {CONCURRENCY}, pool {POOL}"

    async def open(self) -> None:
        self._seen = Seen(0)
        self._app = procrastinate.App(
            connector=procrastinate.PsycopgConnector(conninfo=self.url, min_size=2, max_size=POOL)
        )

        @self._app.task(name="noop")  # type: ignore[untyped-decorator]
        async def noop(to: str, subject: str, number: int) -> None:
            self._seen.handle(number)

        self._noop = noop
        await self._app.open_async()
        if not (await self._app.connector.execute_query_one_async(INSTALLED))["there"]:
            await self._app.schema_manager.apply_schema_async()

    async def close(self) -> None:
        await self._app.close_async()

    async def add(self, jobs: list[Job]) -> None:
        if len(jobs) == 1:
            await self._noop.defer_async(**jobs[0])
        else:
            await self._noop.batch_defer_async(*jobs)

    async def count(self) -> int:
        return int((await self._app.connector.execute_query_one_async(LEFT))["number"])

    async def start(self, seen: Seen) -> None:
        self._seen = seen
        self._running = asyncio.create_task(
            self._app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False)
        )

    async def stop(self) -> None:
        self._running.cancel()  # it finishes what it holds, then ends
        await asyncio.wait([self._running])


if __name__ == "__main__":
    main(ProcrastinateQueue)
