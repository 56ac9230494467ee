"""Enqueue on Redis, one at a time and in batches, beside the peers."""

from __future__ import annotations

from bench.cases.enqueue import enqueue_on
from bench.contenders import ON_REDIS
from bench.redis import serving
from bench.run import Run

TIMES = 3.0


async def enqueue(run: Run) -> None:
    async with serving(run) as server:
        await enqueue_on(run, "redis-enqueue", server, ON_REDIS, at_least=TIMES)
