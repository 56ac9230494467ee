"""A producer process: enqueues at a steady rate, and sends again, with its key, what was not acknowledged.

python -m soak.produce URL FOLDER NAME RATE

What it was told is a line of a file: when, the number of the job, and its id, or ``!`` and the error. One that was
killed and is started again goes on where its file ends, and sends once more whatever is not acknowledged in there.
"""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import dibs
from soak.clocks import follow
from tests.chaos.histories import recording

ON_THEIR_WAY = 32
"""Jobs at the most: whoever has as many waits."""
AGAIN = 0.1


class Producer:
    """Sends numbered jobs."""

    def __init__(self, app: dibs.App, file: Path, name: str) -> None:
        self._app, self._name = app, name
        self._acknowledged = _acknowledged(file)
        self._file = os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        self._free = asyncio.Semaphore(ON_THEIR_WAY)

    async def run(self, rate: float, stopped: asyncio.Event) -> None:
        number, due = 0, time.monotonic()
        async with asyncio.TaskGroup() as group:
            while not stopped.is_set():
                number += 1
                if number in self._acknowledged:
                    continue
                await self._free.acquire()
                group.create_task(self._send(number))
                due = max(due + 1 / rate, time.monotonic())  # what was missed is not made up for
                await asyncio.sleep(due - time.monotonic())

    async def _send(self, number: int) -> None:
        try:
            while (id := await self._enqueue(number)) is None:  # noqa: ASYNC110 - it asks again each time
                await asyncio.sleep(AGAIN)
        finally:
            self._free.release()
        self._note(number, id)

    async def _enqueue(self, number: int) -> str | None:
        task = "long" if number % 50 == 0 else "plain" if number % 10 == 3 else "effect"
        try:
            # Every other one has a tag, and is inserted in a transaction of several statements.
            tags = ["odd"] if number % 2 else []
            key = f"{self._name}-{number}"
            job = await self._app.enqueue(task, {"number": number}, idempotency_key=key, tags=tags)
        except dibs.StoreUnavailable as error:
            self._note(number, f"! {type(error.__cause__ or error).__name__} {error}")
            return None
        return job.id

    def _note(self, number: int, told: str) -> None:
        os.write(self._file, f"{time.monotonic()} {number} {' '.join(told.split())}\n".encode())


def _acknowledged(file: Path) -> set[int]:
    """Read what was acknowledged before; a line that its writer did not finish is cut off."""
    if not file.exists():
        return set()
    whole = file.read_bytes().rpartition(b"\n")[0] + b"\n"
    os.truncate(file, len(whole) if whole != b"\n" else 0)
    words = [line.split() for line in whole.decode().splitlines() if line]
    return {int(number) for _, number, told, *_ in words if told != "!"}


async def produce(url: str, folder: Path, name: str, rate: float) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with dibs.App(url, max_attempts=50) as app:
        await Producer(app, folder / f"{name}.produced", name).run(rate, stopped)


if __name__ == "__main__":
    url, folder, name, rate = sys.argv[1:]
    follow(Path(folder))
    with recording(Path(folder) / f"{name}.jsonl", name):
        asyncio.run(produce(url, Path(folder), name, float(rate)))
