"""From a full Redis to an empty one: a no-op handler, one worker process, dibs and its peers in turns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from bench.cases.end_to_end import TIMES, over_the_best, tell
from bench.contenders import ON_REDIS, Drained, drain, introduce
from bench.places import at
from bench.redis import serving
from bench.run import Run, in_turns

CASE = "redis"


async def redis(run: Run) -> None:
    jobs = run.size(20_000, 4_000)
    async with serving(run) as server:
        home = at(server)
        await introduce(run, ON_REDIS.everyone, home)
        contenders: dict[str, Callable[[], Awaitable[Drained]]] = {
            who.subject: partial(drain, run, who, jobs, home) for who in ON_REDIS.everyone
        }
        found = await in_turns(run.view, CASE, run.size(5, 3), contenders)
    tell(run, CASE, ON_REDIS, found, jobs)
    over_the_best(run, CASE, ON_REDIS, found, at_least=TIMES)
