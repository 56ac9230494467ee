"""Idle workers of one process: ``python -m bench.idle URL WORKERS``. It says when they wait, and ends when it may."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import dibs


async def idle(url: str, workers: int) -> None:
    app = dibs.App(url)

    @app.task
    async def noop() -> None: ...

    async with app:
        several = [dibs.Worker(app, worker_id=f"idle-{os.getpid()}-{number}") for number in range(workers)]
        running = [asyncio.create_task(worker.run()) for worker in several]
        print(json.dumps({"ready": True}), flush=True)
        await asyncio.to_thread(sys.stdin.read)  # until it is closed
        for worker in several:
            worker.stop()
        await asyncio.gather(*running)


if __name__ == "__main__":
    asyncio.run(idle(sys.argv[1], int(sys.argv[2])))
