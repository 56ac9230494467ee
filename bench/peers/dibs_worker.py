"""dibs itself, as the peers are measured: one worker process, by the public API.

On the database whose URL the folder holds, as a peer on a server finds it; without one, on a SQLite file.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import dibs
from bench.peers.program import LOOK, Job, Produced, Seen, main, produced

T = TypeVar("T")

CONCURRENCY = 100
MANY = 1000
"""On PostgreSQL, where the fastest peers set no limit, or one as high."""


class DibsQueue:
    def __init__(self, folder: Path) -> None:
        given = folder / "url"
        self._url = given.read_text(encoding="utf-8") if given.exists() else f"sqlite:///{folder / 'jobs.db'}"
        self._concurrency = MANY if self._url.startswith("postgresql") else CONCURRENCY
        self._app = dibs.App(self._url)
        self._runner: asyncio.Runner | None = None
        if given.exists():
            import uvloop

            self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)  # as the peers on servers run
            self._runner.run(self._app.migrate())
        self._seen = Seen(0)
        self._all = asyncio.Event()

        @self._app.task
        async def noop(to: str, subject: str, number: int) -> None:
            self._seen.handle(number)
            if self._seen.all.is_set():
                self._all.set()

    def about(self) -> str:
        import apsw

        store = f"SQLite {apsw.sqlite_lib_version()}: WAL, synchronous FULL"
        if self._url.startswith("postgresql"):
            store = "PostgreSQL, uvloop"
        elif self._url.startswith("redis"):
            from redis import __version__ as version

            store = f"redis-py {version}, uvloop"
        return f"dibs {dibs.__version__}, {store}, concurrency {self._concurrency}"

    def put(self, job: Job) -> None:
        if self._runner is None:
            self._app.sync.enqueue("noop", job)
        else:
            self._runner.run(self._app.enqueue("noop", job))

    def put_many(self, jobs: list[Job]) -> None:
        several = [dibs.NewJob("noop", job) for job in jobs]
        if self._runner is None:
            self._app.sync.enqueue_many(several)
        else:
            self._runner.run(self._app.enqueue_many(several))

    def produce(self, jobs: int) -> list[Produced]:
        return self._run(produced(jobs, lambda job: self._app.enqueue("noop", job)))

    def left(self) -> int:
        return self._app.sync.counts().unfinished

    def work(self, seen: Seen) -> None:
        self._run(self._work(seen))

    def follow(self, seen: Seen) -> None:
        self._run(self._follow(seen))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(work) if self._runner is None else self._runner.run(work)

    async def _work(self, seen: Seen) -> None:
        self._seen = seen
        running = asyncio.create_task(self._worker().run(until_idle=True))
        await self._emptied(running)
        seen.emptied = time.monotonic()
        await running

    async def _follow(self, seen: Seen) -> None:
        self._seen = seen
        worker = self._worker()
        running = asyncio.create_task(worker.run())
        await self._emptied(running)
        worker.stop()
        await running

    async def _emptied(self, running: asyncio.Task[None]) -> None:
        """Wait until every job was started, and the store has heard of the last one's end; or until the worker ends."""
        looking = asyncio.create_task(self._look())
        await asyncio.wait([running, looking], return_when=asyncio.FIRST_COMPLETED)
        looking.cancel()

    async def _look(self) -> None:
        await self._all.wait()
        while True:
            if not (await self._app.counts()).unfinished:
                return
            await asyncio.sleep(LOOK)

    def _worker(self) -> dibs.Worker:
        return dibs.Worker(self._app, concurrency=self._concurrency, worker_id="bench")


if __name__ == "__main__":
    main(DibsQueue)
