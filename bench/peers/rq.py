"""RQ: one worker that runs jobs in its own process, which is several times faster than its usual fork for each job."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

from redis import Redis
from rq import Queue, SimpleWorker  # type: ignore[import-not-found]

from bench.peers import rq_task
from bench.peers.program import Job, Seen, main, settled, url_in, versions

NAME = "bench.peers.rq_task.noop"


class RqQueue:
    def __init__(self, folder: Path) -> None:
        self._redis = Redis.from_url(url_in(folder))
        self._queue = Queue(connection=self._redis)

    def about(self) -> str:
        return f"{versions('rq', 'redis', 'hiredis')}: SimpleWorker, no results"

    def put(self, job: Job) -> None:
        self._queue.enqueue(NAME, kwargs=job, result_ttl=0)

    def put_many(self, jobs: list[Job]) -> None:
        self._queue.enqueue_many([Queue.prepare_data(NAME, kwargs=job, result_ttl=0) for job in jobs])

    def left(self) -> int:
        return int(self._queue.count) + int(self._queue.started_job_registry.count)

    def work(self, seen: Seen) -> None:
        rq_task.watched.append(seen)
        worker = SimpleWorker([self._queue], connection=self._redis)
        threading.Thread(target=self._end, args=(seen,), daemon=True).start()
        worker.work(logging_level="ERROR")

    def follow(self, seen: Seen) -> None:
        self.work(seen)

    def _end(self, seen: Seen) -> None:
        settled(self, seen)
        os.kill(os.getpid(), signal.SIGTERM)  # its warm shutdown


if __name__ == "__main__":
    main(RqQueue)
