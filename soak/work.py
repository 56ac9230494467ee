"""A worker process: what each run of a handler did is a line in a file, whole or not at all.

python -m soak.work URL FOLDER NAME [SECONDS]

Its clock is so many seconds off.
"""

import asyncio
import gc
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dibs
from soak.clocks import follow
from tests.chaos.histories import recording

LEASE = 4.0
RETRY = dibs.Backoff(base=0.1, cap=0.5)


def make(url: str, runs: Path, name: str) -> dibs.App:
    app = dibs.App(url, reap_every=0.5, retry=RETRY, max_attempts=50)
    file = os.open(runs, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def note() -> None:
        claim = dibs.current()
        os.write(file, f"{time.monotonic()} {name} {claim.id} {claim.fence}\n".encode())

    @app.task
    async def effect(number: int) -> int:
        await asyncio.sleep(0.005)
        if number % 5 == 0 and dibs.current().fence == 1:
            raise dibs.Retry(delay=0)  # in a transaction of several statements, where completing is one
        note()
        return number

    @app.task
    async def long(number: int) -> int:
        """Be at work when something happens."""
        await asyncio.sleep(1.0)
        note()
        return number

    @app.task
    def plain(number: int) -> int:
        """Run in a thread."""
        time.sleep(0.005)
        note()
        return number

    return app


def tell_what_is_waited_for(*_: object) -> None:
    """Tell where every task stands, on whichever loop: for a test that has waited in vain."""
    for task in [found for found in gc.get_objects() if isinstance(found, asyncio.Task)]:
        if not task.done():
            print(task.get_name(), " < ".join(_standing(task.get_coro())), file=sys.stderr, flush=True)


def _standing(coroutine: Any) -> Iterator[str]:
    """Walk from a task's coroutine down to what it awaits."""
    while coroutine is not None:
        frame = _one_of(coroutine, "cr_frame", "ag_frame", "gi_frame")
        if frame is None:
            yield repr(coroutine)[:200]
            return
        yield f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        coroutine = _one_of(coroutine, "cr_await", "ag_await", "gi_yieldfrom")
        if type(coroutine).__name__.startswith("async_generator"):
            coroutine = frame.f_locals["self"].gen  # that of a context manager


def _one_of(thing: Any, *names: str) -> Any:
    return next((found for name in names if (found := getattr(thing, name, None)) is not None), None)


def main(url: str, folder: Path, name: str, off: float = 0.0) -> None:
    follow(folder, off)
    signal.signal(signal.SIGUSR1, tell_what_is_waited_for)
    with recording(folder / f"{name}.jsonl", name):
        app = make(url, folder / "runs", name)
        dibs.Worker(app, worker_id=name, concurrency=4, lease=LEASE).main()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], *map(float, sys.argv[4:]))
