"""persist-queue: its SQLite queue with acknowledgements, and no worker; this loop is one.

What is acknowledged is cleared away now and then, by its own call for that: otherwise each take walks all of it.
"""

from __future__ import annotations

from pathlib import Path

from persistqueue import Empty, SQLiteAckQueue  # type: ignore[import-not-found]

from bench.peers.program import Job, Seen, library, main

CLEAR = 1000


class PersistQueue:
    def __init__(self, folder: Path) -> None:
        self._queue = SQLiteAckQueue(str(folder), auto_commit=True)
        # It takes what SQLite was built with, which is less on some systems.
        self._queue._putter.execute("PRAGMA synchronous = FULL")  # noqa: SLF001 (it has no setting)

    def about(self) -> str:
        return f"persist-queue {library('persist-queue')}: SQLiteAckQueue, auto_commit, WAL, synchronous FULL"

    def put(self, job: Job) -> None:
        self._queue.put(job)

    def put_many(self, jobs: list[Job]) -> None:
        raise NotImplementedError

    def left(self) -> int:
        return int(self._queue.active_size())

    def work(self, seen: Seen) -> None:
        while True:
            try:
                taken = self._queue.get(block=False, raw=True)
            except Empty:
                return
            seen.handle(taken["data"]["number"])
            self._queue.ack(taken)
            if not len(seen.numbers) % CLEAR:
                self._queue.clear_acked_data(max_delete=CLEAR, keep_latest=0)

    def follow(self, seen: Seen) -> None:
        """It wakes for what its own process puts; what another one puts, it sees ten seconds later at the latest."""
        raise NotImplementedError


if __name__ == "__main__":
    main(PersistQueue)
