"""What the processes of the demo do: two kinds of producer, and workers. Each tells the viewer by lines on stdout."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import urllib.request

from dibs.app import App
from dibs.claim import current
from dibs.domain.newjob import NewJob
from dibs.domain.signals import Retry
from dibs.worker import Worker

LEASE = 2.0
BACKLOG = 20  # producers rest while this many are waiting
BATCH = 10
HICCUPS = 0.01  # of all attempts


def tell(**news: object) -> None:
    """Write one line in one go: the lines of a process that is killed are whole or not there."""
    os.write(sys.stdout.fileno(), (json.dumps(news) + "\n").encode())


def work(store: str, name: str, number: int) -> int:
    """Be so many workers, one job at a time each, until SIGTERM."""
    return asyncio.run(_work(store, name, number))


async def _work(store: str, name: str, number: int) -> int:
    stop, luck = _stop_event(), random.Random()  # noqa: S311 - nothing secret about it
    async with App(store) as app:

        @app.task
        async def thumbnail(picture: int) -> str:
            """Make a small picture, or rather take as long as that would."""
            claim = current()
            tell(claimed=[claim.id, claim.fence, (claim.job.claimed_us or 0) - claim.job.due_us])
            await asyncio.sleep(luck.uniform(0, 0.004))
            if luck.random() < HICCUPS:
                raise Retry("the picture service hiccupped", delay=0.2)
            return f"thumbnail-{picture}.png"

        workers = [Worker(app, worker_id=f"{name}-{place}", concurrency=1) for place in range(number)]
        running = [asyncio.create_task(worker.run()) for worker in workers]
        await stop.wait()
        for worker in workers:
            worker.stop()
        await asyncio.gather(*running)
    return 0


def produce(store: str) -> int:
    """Enqueue through Python, until SIGTERM."""
    return asyncio.run(_produce(store))


async def _produce(store: str) -> int:
    stop = _stop_event()
    number = 0
    async with App(store, lease=LEASE) as app:
        while not stop.is_set():
            jobs = [NewJob("thumbnail", {"picture": number + n}, priority=n % 3) for n in range(BATCH)]
            number += BATCH
            tell(enqueued=[job.id for job in await app.enqueue_many(jobs)])
            while not stop.is_set() and (await app.counts()).pending > BACKLOG:  # noqa: ASYNC110 - no one would ring
                await asyncio.sleep(0.02)
    return 0


def post(url: str) -> int:
    """Enqueue through the HTTP API, with nothing but the standard library, until SIGTERM."""
    return asyncio.run(_post(url))


async def _post(url: str) -> int:
    stop = _stop_event()
    number = 1_000_000
    while not stop.is_set():
        jobs = [
            {"task_type": "thumbnail", "params": {"picture": number + n}, "delay_seconds": 1, "lease_seconds": LEASE}
            for n in range(BATCH)
        ]
        number += BATCH
        try:
            answer = await asyncio.to_thread(_request, f"{url}/api/tasks", {"tasks": jobs})
        except OSError as error:
            tell(trouble=f"{url} cannot be reached: {error}")
            await asyncio.sleep(1)
            continue
        tell(enqueued=[job["id"] for job in answer["tasks"]])
        await asyncio.sleep(0.25)
    return 0


def _request(url: str, body: object) -> dict[str, list[dict[str, str]]]:
    request = urllib.request.Request(  # noqa: S310 - the demo's own server
        url, data=json.dumps(body).encode(), headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - likewise
        return json.load(answer)  # type: ignore[no-any-return]


def _stop_event() -> asyncio.Event:
    """Make what SIGTERM sets; Ctrl-C reaches the viewer alone, which then tells everyone."""
    stop = asyncio.Event()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    return stop


if __name__ == "__main__":
    _role, *_arguments = sys.argv[1:]
    if _role == "work":
        _store, _name, _number = _arguments
        sys.exit(work(_store, _name, int(_number)))
    sys.exit(produce(*_arguments) if _role == "produce" else post(*_arguments))
