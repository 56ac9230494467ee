"""The floor on Redis: redis-py with hiredis and nothing around it, claiming and settling as plainly as it can be done.

A hash for each job, a sorted set of those that are pending and one of leases; one script claims and one settles. No
fence, token or log of events, one lane, and nothing to find a job by.
"""

from __future__ import annotations

import time
from typing import Any

from redis.asyncio import Redis

LEASE = 30_000_000
CLAIM = """
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[2], 'LIMIT', 0, ARGV[3])
local claimed = {}
for n, id in ipairs(ids) do
  redis.call('ZREM', KEYS[1], id)
  redis.call('ZADD', KEYS[2], ARGV[4], id)
  redis.call('HSET', KEYS[3] .. id, 'status', 'claimed', 'worker', ARGV[1])
  claimed[n] = {id, redis.call('HMGET', KEYS[3] .. id, 'task', 'params')}
end
return claimed
"""
SETTLE = """
local settled = 0
for n = 2, #ARGV do
  local key = KEYS[2] .. ARGV[n]
  local held = redis.call('HMGET', key, 'status', 'worker')
  if held[1] == 'claimed' and held[2] == ARGV[1] then
    redis.call('ZREM', KEYS[1], ARGV[n])
    redis.call('HSET', key, 'status', 'completed')
    settled = settled + 1
  end
end
return settled
"""


async def drain(url: str, jobs: int, params: bytes, batch: int) -> tuple[float, list[object]]:
    """Claim and settle so many; say how long it took, and which were claimed, in order."""
    client = Redis.from_url(url)
    try:
        await _fill(client, jobs, params)
        claim, settle = client.register_script(CLAIM), client.register_script(SETTLE)
        claimed: list[object] = []
        began = time.perf_counter()
        while True:
            now = time.time_ns() // 1000
            rows = await claim(keys=["pending", "leases", "job:"], args=["bench", now, batch, now + LEASE])
            if not rows:
                return time.perf_counter() - began, claimed
            ids = [row[0] for row in rows]
            await settle(keys=["leases", "job:"], args=["bench", *ids])
            claimed += ids
    finally:
        await client.aclose()


async def _fill(client: Redis, jobs: int, params: bytes) -> None:
    now = time.time_ns() // 1000
    job: dict[Any, Any] = {"queue": "default", "task": "noop", "params": params, "priority": 0, "due": now}
    job["status"] = "pending"
    for start in range(0, jobs, 1000):
        numbers = range(start, min(start + 1000, jobs))
        async with client.pipeline(transaction=False) as pipeline:
            for number in numbers:
                fields: dict[Any, Any] = {
                    "queue": "default",
                    "task": "noop",
                    "params": params,
                    "priority": 0,
                    "due": now,
                }
                pipeline.hset(f"job:{number}", mapping=fields | {"status": "pending"})
            pipeline.zadd("pending", {str(number): now - jobs + number for number in numbers})
            await pipeline.execute()
