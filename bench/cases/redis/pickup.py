"""From one process to another through Redis: how soon a waiting worker starts a job, beside the peers'."""

from __future__ import annotations

from bench.cases.pickup import pickup_on
from bench.contenders import ON_REDIS
from bench.redis import serving
from bench.run import Run

AT_MOST = 1.5


async def pickup(run: Run) -> None:
    async with serving(run) as server:
        await pickup_on(run, "redis-pickup", server, ON_REDIS, at_most=AT_MOST)
