"""A worker process that tells its size: ``python -m bench.ran URL JOBS``, after some of them and after all, or idle."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import dibs

WARM_UP = 10
"""One part in so many of all jobs."""


def mebibytes() -> float:
    """What this process holds in memory now."""
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]) / 1024


async def work(url: str, jobs: int) -> None:
    app, done = dibs.App(url), 0
    marks = {jobs // WARM_UP: "warm", jobs: "after"} if jobs else {}

    @app.task
    async def noop(to: str, subject: str, number: int) -> None:
        nonlocal done
        done += 1
        if done in marks:
            print(json.dumps({marks[done]: mebibytes()}), flush=True)

    async with app:
        worker = dibs.Worker(app, concurrency=100)
        running = asyncio.create_task(worker.run())
        if not jobs:
            await asyncio.sleep(2)
            print(json.dumps({"idle": mebibytes()}), flush=True)
        await asyncio.to_thread(sys.stdin.read)  # until it is closed
        worker.stop()
        await running


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], int(sys.argv[2])))
