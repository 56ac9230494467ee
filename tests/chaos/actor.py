"""A process that does to a store what it is told, line by line on stdin, and answers on stdout.

python -m tests.chaos.actor URL NAME [HISTORY]
"""

from __future__ import annotations

import asyncio
import json
import mmap
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from itertools import cycle
from pathlib import Path
from typing import Any

import dibs
from soak.clocks import follow
from tests.chaos.histories import recording

OUT = sys.stdout.fileno()


def say(answer: Any) -> None:
    """One line, one write: what a process said before it was killed is whole."""
    os.write(OUT, json.dumps({"answer": answer}).encode() + b"\n")


class Actor:
    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self.url = url
        # Whoever is told to reap reaps: no one else does in passing.
        self.app = dibs.App(url, reap_every=3600.0, prune_every=3600.0)
        self.claims: dict[str, dibs.Claim] = {}

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        say("ready")  # nothing has been opened yet
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            message = json.loads(line)
            do: Callable[..., Awaitable[Any]] = getattr(self, message.pop("do"))
            begin = message.pop("at", None)
            while begin is not None and time.monotonic_ns() < begin:
                pass  # to the microsecond, so that they meet
            try:
                say(await do(**message))
            except dibs.DibsError as error:
                os.write(OUT, json.dumps({"error": error.code, "message": str(error)}).encode() + b"\n")
        await self.app.close()

    # Jobs

    async def enqueue(self, task: str = "t", params: Any = None, **options: Any) -> dict[str, Any]:
        job = await self.app.enqueue(task, params, **options)
        return {"id": job.id, "duplicate": job.was_duplicate}

    async def enqueue_many_times(self, times: int, **options: Any) -> list[dict[str, Any]]:
        return list(await asyncio.gather(*(self.enqueue(**options) for _ in range(times))))

    async def enqueue_for_ever(self, batch: int, size: int = 10) -> None:
        """Enqueue by ones and by batches, and tell of each only once it is acknowledged."""
        number = 0
        while True:
            number += 1
            if number % 4:
                say([(await self.app.enqueue("t", {"batch": None, "text": "x" * size})).id])
            else:
                new = [dibs.NewJob("t", {"batch": number, "text": "x" * size}) for _ in range(batch)]
                say([job.id for job in await self.app.enqueue_many(new)])

    async def enqueue_until_refused(self, size: int) -> list[str]:
        """Enqueue until the store goes on saying no; each that was acknowledged is named.

        The first no need not be the last: the WAL may be full while there is room in the file to move it to.
        """
        ids: list[str] = []
        refused = 0
        while refused < 5:
            try:
                ids.append((await self.app.enqueue("t", "x" * size)).id)
                refused = 0
            except dibs.StoreUnavailable:
                refused += 1
        return ids

    async def cancel(self, id: str) -> int:
        return (await self.app.cancel(id, by=self.name)).changed

    async def resume(self, queue: str) -> None:
        await self.app.resume(queue, by=self.name)

    async def counts(self) -> dict[str, int]:
        counts = await self.app.counts()
        return {"pending": counts.pending, "claimed": counts.claimed, "completed": counts.completed}

    # Claims

    async def claim(self, **options: Any) -> dict[str, Any] | None:
        claim = await self.app.claim(options.pop("worker_id", self.name), **options)
        if claim is None:
            return None
        self.claims[claim.id] = claim
        return {"id": claim.id, "fence": claim.fence, "lease_token": claim.lease_token}

    async def adopt(self, id: str, fence: int, lease_token: str) -> None:
        """Hold a claim that someone else made."""
        self.claims[id] = self.app.claimed(id, fence=fence, lease_token=lease_token)

    async def extend(self, id: str) -> None:
        await self.claims[id].extend()

    async def progress(self, id: str) -> None:
        await self.claims[id].progress(0.5, "half")

    async def complete(self, id: str, result: Any = None) -> None:
        await self.claims[id].complete(result)

    async def fail(self, id: str) -> None:
        await self.claims[id].fail("told to")

    async def release(self, id: str) -> None:
        await self.claims[id].release()

    async def beat(self) -> None:
        """Say that we are there, as workers do."""
        await self.app.runtime.broker().beat(self.name, metadata={}, every=10.0)

    async def reap(self) -> None:
        """Whoever finds nothing looks after the leases that ran out."""
        await self.app.claim(self.name, queues=["nowhere"])

    async def enter(self, id: str) -> None:
        await self.claims[id].__aenter__()

    async def leave(self, id: str) -> None:
        await self.claims[id].__aexit__(None, None, None)

    async def lost(self, id: str) -> bool:
        return self.claims[id].lost

    async def drain(self, limits: list[int]) -> list[tuple[str, int]]:
        """Claim, so many at a time in turn, and complete until there is nothing left."""
        taken: list[tuple[str, int]] = []
        for limit in cycle(limits):
            claims = await self.app.claim_many(self.name, limit=limit)
            if not claims:
                break
            taken += [(claim.id, claim.fence) for claim in claims]
            await asyncio.gather(*(claim.complete() for claim in claims))
        return taken

    async def churn(self, seconds: float, size: int) -> int:
        """Enqueue, claim and complete again and again; say how many."""
        end = time.monotonic() + seconds
        done = 0
        while time.monotonic() < end:
            await self.app.enqueue_many([dibs.NewJob("churn", "x" * size) for _ in range(20)])
            for claim in await self.app.claim_many(self.name, tasks=["churn"], limit=20):
                await claim.complete()
                done += 1
        return done

    async def open_many(self, number: int) -> list[str]:
        """Open the store in so many apps at once, each in a thread of its own; say what went wrong."""
        wrong: list[str] = []
        barrier = threading.Barrier(number)

        def open_one(index: int) -> None:
            app = dibs.App(self.url)
            barrier.wait()
            try:
                app.sync.enqueue("opened", {"by": self.name, "index": index})
            except Exception as error:  # noqa: BLE001 - whatever it is, it is told
                wrong.append(repr(error))
            app.sync.close()

        threads = [threading.Thread(target=open_one, args=(index,)) for index in range(number)]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        return wrong

    # Handlers

    async def handle(self, id: str, how: str, seconds: float) -> None:
        """Run a handler that does not let the event loop go on."""
        async with self.claims[id]:
            say("handling")
            if how == "sleep":
                time.sleep(seconds)  # noqa: ASYNC251 - that is the mistake
            else:
                end = time.monotonic() + seconds
                while time.monotonic() < end:
                    sum(range(1000))

    async def work(self, lease: float) -> None:
        """Work for ever, on whatever there is, with handlers of which some are the worker's death."""
        async for claim in self.app.claims(self.name, lease=lease):
            async with claim:
                say([claim.task, claim.id])
                HANDLERS[claim.task]()

    # The machine

    async def set_clock(self, seconds: float) -> None:
        """Let the time of day be so many seconds off, for this process alone."""
        follow(Path("/nowhere"), seconds)

    async def limit_files(self, most: int | None) -> None:
        """Let no file of this process grow beyond so many bytes, as a full disk would not."""
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard if most is None else most, hard))


def leave_at_once() -> None:
    os._exit(7)


def take_all_memory() -> None:
    """Take what there is, up to a limit that is near."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (used + 64 * 2**20, resource.RLIM_INFINITY))
    hoard = []
    try:
        while True:
            hoard.append(bytearray(2**22))
    except MemoryError:
        hoard.clear()  # so that there is enough to tell of it
        raise


def take_too_much_memory() -> None:
    """Take what there is, and be killed for it, as the kernel does when the machine has no more."""
    try:
        take_all_memory()
    except MemoryError:
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)


HANDLERS: dict[str, Callable[[], None]] = {
    "exit": leave_at_once,
    "hog": take_all_memory,
    "oom": take_too_much_memory,
    "good": lambda: None,
}


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # where the tests are measured, someone else wants to hear of it
    with recording(Path(sys.argv[3]), sys.argv[2]) if len(sys.argv) > 3 else nullcontext():
        asyncio.run(Actor(sys.argv[1], sys.argv[2]).run())
