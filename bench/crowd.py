"""Idle workers, each with an app of its own: ``python -m bench.crowd URL WORKERS``. It ends when it may, or is killed.

To a server they are as many clients: an app has its own connections, listener, claims and beats, and nothing of one
helps another. What they share, an interpreter and its event loop, is no help either.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys

import dibs

POLL_EVERY = 5.0
"""Seconds: what so many workers would be set to. Each second, a thousand of them keep a small machine busy by looking,
and one that is busy cannot show what else they ask."""


def _worker(url: str, number: int) -> dibs.Worker:
    app = dibs.App(url, poll_every=POLL_EVERY)

    @app.task
    async def noop() -> None: ...

    return dibs.Worker(app, worker_id=f"crowd-{os.getpid()}-{number}")


async def crowd(url: str, workers: int) -> None:
    logging.getLogger("dibs").setLevel(logging.CRITICAL)  # that a server was restarted is known
    several = [_worker(url, number) for number in range(workers)]
    running = [asyncio.create_task(_run(worker)) for worker in several]
    print(json.dumps({"ready": True}), flush=True)
    await asyncio.to_thread(sys.stdin.read)  # until it is closed
    for worker in several:
        worker.stop()
    await asyncio.gather(*running)


async def _run(worker: dibs.Worker) -> None:
    async with worker.app:
        await worker.run()


if __name__ == "__main__":
    asyncio.run(crowd(sys.argv[1], int(sys.argv[2])))
