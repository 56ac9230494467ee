"""The other processes of a case: one that enqueues, one that claims. They say what they saw as lines of JSON.

``time.monotonic`` is the machine's: all of its processes read the same clock.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import sys
import time

import dibs

EVERY = 0.05
"""Seconds between two jobs, more or less."""


def _say(**news: object) -> None:
    print(json.dumps(news), flush=True)


async def produce(url: str, jobs: int) -> None:
    done: list[tuple[str, float, float]] = []
    async with dibs.App(url) as app:
        for _ in range(jobs):
            # Uneven, so that it does not fall into step with whoever looks at intervals.
            await asyncio.sleep(EVERY * random.uniform(0.5, 1.5))
            asked = time.monotonic()
            job = await app.enqueue("noop", {"at": asked})
            done.append((job.id, asked, time.monotonic()))
    _say(jobs=done)


async def claim_all(url: str, jobs: int, idle: float) -> None:
    claimed: list[tuple[str, float]] = []
    async with dibs.App(url) as app:
        assert await app.claim("claimer", wait=0.2) is None  # warm
        before = _cpu()
        began = time.monotonic()
        while (left := idle - (time.monotonic() - began)) > 0:
            assert await app.claim("claimer", wait=left) is None
        _say(burnt=(_cpu() - before) / (time.monotonic() - began))
        while len(claimed) < jobs:
            claim = await app.claim("claimer", wait=10)
            if claim is None:
                break
            claimed.append((claim.id, time.monotonic()))
            await claim.complete()
    _say(claimed=claimed)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    role, url, jobs, idle = sys.argv[1:]
    asyncio.run(produce(url, int(jobs)) if role == "produce" else claim_all(url, int(jobs), float(idle)))
