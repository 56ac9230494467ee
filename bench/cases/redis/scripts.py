"""How long a script holds the server up: while it runs, no one else is served.

Everything is asked for by the thousand, the most that a call may. The bar is on the 90th percentile of the slowest
script: the longest call of all says as much about what else the machine did. A script that is quick, but for a call or
two while the machine was busy, is not counted.
"""

from __future__ import annotations

from bench.redis import NOTED, Redis, serving
from bench.run import Run, percentile
from bench.subjects import GROUP, complete_all, draft, insert, opened_at, prove_once, request
from dibs.clock import Clock
from dibs.domain.job import Extension

CASE = "redis-scripts"
AT_MOST_MS = 5.0


async def scripts(run: Run) -> None:
    turns, jobs = run.size(5, 3), run.size(20_000, 5_000)
    async with serving(run) as server:
        with run.view.step(CASE, turns) as step:
            found = []
            for _ in range(turns):
                found.append(await _turn(run, server, jobs))
                step.advance()
    usual = [slowest(turn, jobs // GROUP) for turn in found]
    longest = [max((max(took) for took in turn.values()), default=NOTED) for turn in found]
    run.figure(CASE, f"dibs redis, {GROUP:,} at a time", "slowest script, p90", "ms", usual)
    run.figure(CASE, f"dibs redis, {GROUP:,} at a time", "longest of all", "ms", longest)
    run.bar(CASE, f"Redis: the slowest script's p90, {GROUP:,} jobs at a time", "ms", usual, at_most=AT_MOST_MS)


def slowest(took: dict[str, list[float]], calls: int) -> float:
    """The 90th percentile of the slowest script, of those that took long in as many calls as were made by us."""
    return max((percentile(each, 90) for each in took.values() if len(each) >= calls), default=NOTED)


async def _turn(run: Run, server: Redis, jobs: int) -> dict[str, list[float]]:
    clock, ids = Clock(), list[str]()
    async with server.database() as url, opened_at(url) as store, server.timed() as took:
        await insert(store, (draft(clock) for _ in range(jobs)))
        for _ in range(jobs // GROUP):
            [claimed] = await store.claim([request(GROUP)])
            ids += [job.id for job in claimed]
            await store.extend([Extension(job.ref) for job in claimed])
            await complete_all(store, claimed)
        prove_once(run, ids, jobs)
    return took
