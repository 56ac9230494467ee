"""A queue on a cluster of three masters: in one part, which one master serves, and in twelve, which all of them do.

What is compared is the masters' own processor time, so that it does not matter how many cores there are for them.
"""

from __future__ import annotations

from itertools import count
from statistics import mean
from typing import NamedTuple

from bench.run import Run, ratios
from bench.subjects import complete_all, draft, insert, opened_at, prove_once, request
from dibs.clock import Clock
from tests.servers import cluster

CASE = "redis-cluster"
AT_LEAST = 0.95
AT_MOST = 1.2
BATCH = 100
PARTS = (1, 12)


class Turn(NamedTuple):
    claims: float  # for a second of the masters' processor time
    uneven: float  # the busiest master's share, over an even one
    bytes: float  # for a pending job


async def clustered(run: Run) -> None:
    turns, jobs = run.size(5, 3), run.size(20_000, 5_000)
    found: dict[int, list[Turn]] = {parts: [] for parts in PARTS}
    numbers = count()
    with cluster.private() as server, run.view.step(CASE, turns * len(PARTS)) as step:
        run.notes.append(f"Redis {server.nodes[0].info('server')['redis_version']}: three masters, a replica each")
        for _ in range(turns):
            for parts in PARTS:
                found[parts].append(await _turn(run, server, jobs, parts, next(numbers)))
                step.advance()
    for parts, each in found.items():
        subject = "one queue in one part" if parts == 1 else f"one queue in {parts} parts"
        run.figure(CASE, subject, "claim+settle of 100", "jobs/s of processor time", [turn.claims for turn in each])
        run.figure(CASE, subject, "pending job", "bytes", [turn.bytes for turn in each])
    one, several = (found[parts] for parts in PARTS)
    shares = [turn.uneven for turn in several]
    run.figure(CASE, f"one queue in {PARTS[-1]} parts", "busiest master over an even share", "×", shares)
    claims = ratios([turn.claims for turn in several], [turn.claims for turn in one])
    run.bar(CASE, "Redis Cluster: claims for the masters' time, twelve parts over one", "×", claims, at_least=AT_LEAST)
    run.bar(CASE, "Redis Cluster: the busiest master's load over an even share", "×", shares, at_most=AT_MOST)


def _processor(server: cluster.Server) -> list[float]:
    found = [node.info("cpu") for node in server.masters]
    return [float(info["used_cpu_user"]) + float(info["used_cpu_sys"]) for info in found]


def _memory(server: cluster.Server) -> int:
    return sum(int(node.info("memory")["used_memory"]) for node in server.masters)


async def _turn(run: Run, server: cluster.Server, jobs: int, parts: int, number: int) -> Turn:
    clock, ids = Clock(), list[str]()
    url = f"{server.url}?prefix=bench{number}&partitions={parts}"
    async with opened_at(url) as store:
        before = _memory(server)
        await insert(store, (draft(clock) for _ in range(jobs)))
        taken = _memory(server) - before
        busy = _processor(server)
        while claimed := [job for jobs in await store.claim([request(BATCH)]) for job in jobs]:
            ids += [job.id for job in claimed]
            await complete_all(store, claimed)
        spent = [after - before for before, after in zip(busy, _processor(server), strict=True)]
        prove_once(run, ids, jobs)
    for node in server.masters:
        node.ask("FLUSHALL")
    return Turn(jobs / sum(spent), max(spent) / mean(spent), taken / jobs)
