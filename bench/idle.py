"""Idle workers of one process: ``python -m bench.idle URL WORKERS SECONDS``. It says when they wait, and ends by itself."""

from __future__ import annotations

import asyncio
import json
import sys

import dibs


async def idle(url: str, workers: int, seconds: float) -> None:
    app = dibs.App(url)

    @app.task
    async def noop() -> None: ...

    async with app:
        several = [dibs.Worker(app, worker_id=f"idle-{number}") for number in range(workers)]
        running = [asyncio.create_task(worker.run()) for worker in several]
        print(json.dumps({"ready": True}), flush=True)
        await asyncio.sleep(seconds)
        for worker in several:
            worker.stop()
        await asyncio.gather(*running)


if __name__ == "__main__":
    asyncio.run(idle(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
