"""Claim and settle on Redis, by 100 beside two bare scripts; and ten who claim one job at a time."""

from __future__ import annotations

from bench import bare_redis
from bench.cases.beside import beside
from bench.redis import serving
from bench.run import Run, ratios

CASE = "redis-batch"
SHARE = 0.4


async def batch(run: Run) -> None:
    async with serving(run) as server:
        found = await beside(run, CASE, server, "bare scripts", bare_redis.drain)
    run.bar(
        CASE,
        "claim+settle of 100 through the broker on Redis, as a worker does it, over the bare scripts",
        "×",
        ratios(found["dibs broker, redis"], found["bare scripts"]),
        at_least=SHARE,
    )
