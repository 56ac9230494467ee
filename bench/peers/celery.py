"""Celery on Redis: prefork with two processes, four prefetched for each, results ignored, no events.

Its handlers run in processes of their own, and tell of each job through a pipe that they inherit.
"""

from __future__ import annotations

import os
import struct
import threading
import time
import warnings
from pathlib import Path

from celery import Celery  # type: ignore[import-not-found]
from celery.worker import state  # type: ignore[import-not-found]
from redis import Redis

from bench.peers.program import Job, Seen, main, settled, url_in, versions

PROCESSES, PREFETCH = 2, 4
NEWS = struct.Struct("<qd")


class CeleryQueue:
    def __init__(self, folder: Path) -> None:
        warnings.filterwarnings("ignore", module="celery.platforms")  # of root, who may well run a benchmark
        url = url_in(folder)
        self._redis = Redis.from_url(url)
        self._app = Celery("bench", broker=url)
        self._app.conf.update(
            task_ignore_result=True,
            worker_prefetch_multiplier=PREFETCH,
            worker_redirect_stdouts=False,
            worker_hijack_root_logger=False,
            broker_connection_retry_on_startup=True,
        )
        self._reading, self._writing = os.pipe()

        @self._app.task(name="noop")  # type: ignore[untyped-decorator]
        def noop(to: str, subject: str, number: int) -> None:
            os.write(self._writing, NEWS.pack(number, time.monotonic()))

        self._noop = noop

    def about(self) -> str:
        about = versions("celery", "kombu", "redis", "hiredis")
        return f"{about}: prefork {PROCESSES}, prefetch {PREFETCH}, results ignored"

    def put(self, job: Job) -> None:
        self._noop.apply_async(kwargs=job)

    def put_many(self, jobs: list[Job]) -> None:
        raise NotImplementedError

    def left(self) -> int:
        return int(self._redis.llen("celery")) + int(self._redis.hlen("unacked"))

    def work(self, seen: Seen) -> None:
        worker = self._app.Worker(
            pool="prefork",
            concurrency=PROCESSES,
            loglevel="ERROR",
            quiet=True,
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
        )
        threading.Thread(target=self._listen, args=(seen,), daemon=True).start()
        threading.Thread(target=self._end, args=(seen,), daemon=True).start()
        worker.start()

    def follow(self, seen: Seen) -> None:
        self.work(seen)

    def _listen(self, seen: Seen) -> None:
        while news := os.read(self._reading, NEWS.size):  # so little is written in one piece
            seen.handle(*NEWS.unpack(news))

    def _end(self, seen: Seen) -> None:
        settled(self, seen)
        state.should_stop = os.EX_OK  # as its warm shutdown does, but that would print where we tell our news


if __name__ == "__main__":
    main(CeleryQueue)
