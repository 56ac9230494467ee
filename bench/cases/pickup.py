"""From one process to another on one SQLite file: how soon a job is claimed, and what it costs to wait for one."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.run import Broken, Run, percentile
from bench.subjects import opened, prove_log, prove_once, url_of

ROOT = Path(__file__).resolve().parents[2]
AT_MOST_MS = 5.0
IDLE_AT_MOST = 2.0


async def pickup(run: Run) -> None:
    turns, jobs, idle = run.size(5, 3), run.size(100, 40), run.size(10, 4)
    found: list[Turn] = []
    with run.view.step("pickup from another process", turns) as step:
        for _ in range(turns):
            found.append(await _turn(run, jobs, idle))
            step.advance()
    for share in (50, 95, 99):
        told = [percentile(turn.told, share) for turn in found]
        run.figure("pickup", "dibs sqlite", f"acknowledged → claimed, p{share}", "ms", told)
    asked = [percentile(turn.asked, 50) for turn in found]
    run.figure("pickup", "dibs sqlite", "asked to enqueue → claimed, p50", "ms", asked)
    run.bar(
        "pickup",
        "SQLite, another process: enqueue acknowledged → claimed, p50",
        "ms",
        [percentile(turn.told, 50) for turn in found],
        at_most=AT_MOST_MS,
    )
    run.bar(
        "pickup-idle",
        "SQLite: CPU of a process that waits for a job, of one core",
        "%",
        [100 * turn.burnt for turn in found],
        at_most=IDLE_AT_MOST,
    )


class Turn(NamedTuple):
    """Milliseconds until each job was claimed, and the part of a core that waiting took before the first came."""

    told: list[float]  # since the producer was told that it is enqueued
    asked: list[float]  # since the producer asked
    burnt: float


async def _turn(run: Run, jobs: int, idle: float) -> Turn:
    with run.fresh() as folder:
        url = url_of("sqlite", folder)
        async with _started("claim", url, jobs, idle) as claimer:
            burnt = (await _line(claimer))["burnt"]  # it has waited in vain, and goes on waiting
            async with _started("produce", url, jobs, 0) as producer:
                acknowledged = {id: (asked, told) for id, asked, told in (await _line(producer))["jobs"]}
            claimed = (await _line(claimer))["claimed"]
        prove_once(run, [id for id, _ in claimed], jobs)
        async with opened("sqlite", folder) as store:
            await prove_log(run, store, "pickup", jobs)
    # The claim may come back before the enqueue does: then there was nothing to wait for.
    told = [1e3 * max(0.0, at - acknowledged[id][1]) for id, at in claimed]
    asked = [1e3 * (at - acknowledged[id][0]) for id, at in claimed]
    return Turn(told, asked, burnt)


@asynccontextmanager
async def _started(role: str, url: str, jobs: int, idle: float) -> AsyncIterator[Process]:
    command = (sys.executable, "-m", "bench.processes", role, url, str(jobs), str(idle))
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, cwd=ROOT, limit=1 << 24)
    try:
        yield process
        if await process.wait():
            raise Broken("a process of the pickup case failed")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _line(process: Process) -> dict[str, Any]:
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        raise Broken("a process of the pickup case said nothing")
    news: dict[str, Any] = json.loads(line)
    return news
