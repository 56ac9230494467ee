"""A worker process for fault tests: what each run of a handler did is a line in a file, whole or not at all.

python -m tests.faults.work URL FOLDER NAME
"""

import asyncio
import gc
import os
import signal
import sys
import time
from pathlib import Path

import dibs
from tests.chaos.histories import recording

LEASE = 4.0
RETRY = dibs.Backoff(base=0.1, cap=0.5)


def make(url: str, runs: Path, name: str) -> dibs.App:
    app = dibs.App(url, reap_every=0.5, retry=RETRY, max_attempts=50)
    file = os.open(runs, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    @app.task
    async def effect(number: int) -> int:
        await asyncio.sleep(0.005)
        claim = dibs.current()
        if number % 5 == 0 and claim.fence == 1:
            raise dibs.Retry(delay=0)  # in a transaction of several statements, where completing is one
        os.write(file, f"{time.monotonic()} {name} {claim.id} {claim.fence}\n".encode())
        return number

    return app


def tell_what_is_waited_for(*_: object) -> None:
    """Tell where every task stands, on whichever loop: for a test that has waited in vain."""
    for task in [found for found in gc.get_objects() if isinstance(found, asyncio.Task)]:
        if not task.done():
            task.print_stack(file=sys.stderr)


def main(url: str, folder: Path, name: str) -> None:
    signal.signal(signal.SIGUSR1, tell_what_is_waited_for)
    with recording(folder / f"{name}.jsonl", name):
        app = make(url, folder / "runs", name)
        dibs.Worker(app, worker_id=name, concurrency=4, lease=LEASE).main()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
