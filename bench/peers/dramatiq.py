"""Dramatiq on Redis: one process, eight threads, as its command line has them; no results."""

from __future__ import annotations

import logging
from pathlib import Path

import dramatiq  # type: ignore[import-not-found]
from dramatiq.brokers.redis import RedisBroker  # type: ignore[import-not-found]

from bench.peers.program import Job, Seen, main, settled, url_in, versions

THREADS = 8


class DramatiqQueue:
    def __init__(self, folder: Path) -> None:
        logging.getLogger("dramatiq").setLevel(logging.ERROR)
        self._broker = RedisBroker(url=url_in(folder))
        self._seen = Seen(0)

        @dramatiq.actor(broker=self._broker)  # type: ignore[untyped-decorator]
        def noop(to: str, subject: str, number: int) -> None:
            self._seen.handle(number)

        self._noop = noop

    def about(self) -> str:
        return f"{versions('dramatiq', 'redis', 'hiredis')}: RedisBroker, {THREADS} threads"

    def put(self, job: Job) -> None:
        self._noop.send(**job)

    def put_many(self, jobs: list[Job]) -> None:
        raise NotImplementedError

    def left(self) -> int:
        return int(self._broker.client.hlen("dramatiq:default.msgs"))  # a message is there until it is acknowledged

    def work(self, seen: Seen) -> None:
        self._seen = seen
        worker = dramatiq.Worker(self._broker, worker_threads=THREADS)
        worker.start()
        settled(self, seen)
        worker.stop()

    def follow(self, seen: Seen) -> None:
        self.work(seen)


if __name__ == "__main__":
    main(DramatiqQueue)
