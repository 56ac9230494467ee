"""Huey on SQLite: a write-ahead log, a sync at every commit, two threads, as its consumer runs them.

It takes a job out of the file before it runs it: what is under way when the process dies is gone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from huey import SqliteHuey  # type: ignore[import-not-found]

from bench.peers.program import Job, Seen, library, main, settled

THREADS = 2


class HueyQueue:
    threads = THREADS

    def __init__(self, folder: Path) -> None:
        self._huey = self.opened(folder)
        self._seen = Seen(0)

        @self._huey.task()  # type: ignore[untyped-decorator]
        def noop(to: str, subject: str, number: int) -> None:
            self._seen.handle(number)

        self._noop = noop

    def opened(self, folder: Path) -> Any:
        # Results are off: nobody asks for them, and it is quicker so.
        return SqliteHuey(filename=str(folder / "huey.db"), journal_mode="wal", fsync=True, results=False)

    def about(self) -> str:
        return f"huey {library('huey')}: SqliteHuey, WAL, synchronous FULL, {THREADS} threads, looks every 0.1 s"

    def put(self, job: Job) -> None:
        self._noop(**job)

    def put_many(self, jobs: list[Job]) -> None:
        raise NotImplementedError

    def left(self) -> int:
        return int(self._huey.storage.queue_size()) + len(self._huey._tasks_in_flight)  # noqa: SLF001 (it has no other)

    def work(self, seen: Seen) -> None:
        self._seen = seen
        consumer = self._huey.create_consumer(workers=self.threads, periodic=False, check_worker_health=False)
        consumer.start()
        settled(self, seen)
        consumer.stop(graceful=True)

    def follow(self, seen: Seen) -> None:
        self.work(seen)


if __name__ == "__main__":
    main(HueyQueue)
