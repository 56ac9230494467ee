"""litequeue: one SQLite table and no worker; this loop is one, and looks every millisecond when there is nothing.

It sorts all that is ready for every job that it takes, so it is slower the more is waiting.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from litequeue import LiteQueue  # type: ignore[import-not-found]

from bench.peers.program import LOOK, Job, Seen, library, main


class LitequeueQueue:
    def __init__(self, folder: Path) -> None:
        self._queue = LiteQueue(folder / "lite.db")
        # It asks for NORMAL, with which a power cut may take what was acknowledged.
        self._queue.conn.execute("PRAGMA synchronous = FULL")

    def about(self) -> str:
        return f"litequeue {library('litequeue')}: WAL, synchronous FULL, looks every {1e3 * LOOK:g} ms"

    def put(self, job: Job) -> None:
        self._queue.put(json.dumps(job))

    def put_many(self, jobs: list[Job]) -> None:
        with self._queue.transaction():
            for job in jobs:
                self._queue.put(json.dumps(job))

    def left(self) -> int:
        return int(self._queue.qsize())

    def work(self, seen: Seen) -> None:
        while self._one(seen):
            pass

    def follow(self, seen: Seen) -> None:
        while not seen.all.is_set():
            if not self._one(seen):
                time.sleep(LOOK)

    def _one(self, seen: Seen) -> bool:
        message = self._queue.pop()
        if message is None:
            return False
        seen.handle(json.loads(message.data)["number"])
        self._queue.done(message.message_id)
        return True


if __name__ == "__main__":
    main(LitequeueQueue)
