"""Why a claim on Redis is a script: the same claim by WATCH, MULTI and EXEC, side by side, on the tests' own Redis.

Each claims a job by its place in a sorted set, writes its state and its lease, and reads it; several claimers at once,
rounds in turns. ``./dev run python -m bench.shapes.watching``
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from statistics import median

import redis.asyncio as driver
from redis.exceptions import WatchError

from tests.servers import redis as server

JOBS, ROUNDS = 400, 5
PENDING, LEASES, STATE, BODY = (f"bench:{{0}}:{kind}" for kind in ("pending", "leases", "state", "body"))
SCRIPT = """
local picked = redis.call('ZRANGE', KEYS[1], 0, ARGV[1] - 1)
if #picked == 0 then return {} end
redis.call('ZREM', KEYS[1], unpack(picked))
for _, id in ipairs(picked) do
  redis.call('ZADD', KEYS[2], ARGV[2], id)
  redis.call('HSET', KEYS[3], id, ARGV[3])
end
return redis.call('HMGET', KEYS[4], unpack(picked))
"""

Claim = Callable[[driver.Redis, int], Awaitable[tuple[int, int]]]  # how many it got, how often it was too late


async def by_script(client: driver.Redis, batch: int) -> tuple[int, int]:
    script = client.register_script(SCRIPT)
    return len(await script(keys=[PENDING, LEASES, STATE, BODY], args=[batch, time.time() + 30, "claimed"])), 0


async def by_watching(client: driver.Redis, batch: int) -> tuple[int, int]:
    late = 0
    async with client.pipeline(transaction=True) as pipeline:
        while True:
            await pipeline.watch(PENDING)
            picked = await pipeline.zrange(PENDING, 0, batch - 1)
            if not picked:
                return 0, late
            pipeline.multi()
            pipeline.zrem(PENDING, *picked)
            pipeline.zadd(LEASES, {id: time.time() + 30 for id in picked})
            pipeline.hset(STATE, mapping=dict.fromkeys(picked, "claimed"))
            pipeline.hmget(BODY, picked)
            try:
                return len((await pipeline.execute())[-1]), late
            except WatchError:
                late += 1


async def round_of(url: str, claim: Claim, claimers: int, batch: int) -> tuple[float, int]:
    clients = [driver.Redis.from_url(url) for _ in range(claimers)]
    await clients[0].delete(PENDING, LEASES, STATE, BODY)
    await clients[0].zadd(PENDING, {f"job-{n}": n for n in range(JOBS * batch)})
    await clients[0].hset(BODY, mapping={f"job-{n}": "{}" for n in range(JOBS * batch)})
    late = 0

    async def work(client: driver.Redis) -> int:
        nonlocal late
        taken = 0
        while True:
            got, missed = await claim(client, batch)
            late += missed
            taken += got
            if not got:
                return taken

    began = time.perf_counter()
    taken = await asyncio.gather(*map(work, clients))
    seconds = time.perf_counter() - began
    assert sum(taken) == JOBS * batch
    for client in clients:
        await client.aclose()
    return JOBS * batch / seconds, late


async def main() -> None:
    url = server.shared()
    for batch in (1, 10):
        for claimers in (1, 8, 32):
            rates: dict[str, list[float]] = {"script": [], "watch": []}
            late = 0
            for _ in range(ROUNDS):
                rates["script"].append((await round_of(url, by_script, claimers, batch))[0])
                rate, missed = await round_of(url, by_watching, claimers, batch)
                rates["watch"].append(rate)
                late += missed
            script, watch = median(rates["script"]), median(rates["watch"])
            print(
                f"{claimers:3} claimers, {batch:3} at a time: script {script:7.0f}/s, watch {watch:7.0f}/s, "
                f"{script / watch:.1f}x, {late / ROUNDS / JOBS:.1f} tries in vain for each claim",
                flush=True,
            )


if __name__ == "__main__":
    asyncio.run(main())
