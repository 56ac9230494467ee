"""Claim and settle on PostgreSQL, by 100 beside the bare driver; and ten who claim one job at a time."""

from __future__ import annotations

import asyncio
import time
from functools import partial

import dibs
from bench import bare_postgres
from bench.cases.batch import Drain, ahead
from bench.cases.claimers import CLAIMERS
from bench.postgres import Postgres, serving
from bench.run import Broken, Run, in_turns
from bench.subjects import PARAMS, PARAMS_JSON, draft, insert, opened_at, prove_app, prove_log, prove_once
from dibs.clock import Clock

CASE = "postgres-batch"
SIZE = 100


async def batch(run: Run) -> None:
    jobs, singles = run.size(20_000, 4_000), run.size(5_000, 1_000)
    async with serving(run) as server:
        found = await in_turns(
            run.view,
            CASE,
            run.size(5, 3),
            {
                "dibs broker, postgres": partial(_ours, run, server, ahead, jobs),
                "bare asyncpg": partial(_bare, server, jobs),
                "dibs postgres, ten claimers, one job at a time": partial(_claimers, run, server, singles),
            },
        )
    for subject, rates in found.items():
        metric = "claim+complete" if "ten claimers" in subject else f"claim+settle by {SIZE}"
        run.figure(CASE, subject, metric, "/s", rates)


async def _ours(run: Run, server: Postgres, drain: Drain, jobs: int) -> float:
    clock = Clock()
    async with server.database(migrated=True) as url, opened_at(url) as store:
        await insert(store, (draft(clock) for _ in range(jobs)))
        claimed: list[str] = []
        began = time.perf_counter()
        await drain(store, SIZE, claimed)
        seconds = time.perf_counter() - began
        prove_once(run, claimed, jobs)
        await prove_log(run, store, CASE, jobs)
    return jobs / seconds


async def _bare(server: Postgres, jobs: int) -> float:
    async with server.database() as url:
        seconds, claimed = await bare_postgres.drain(url, jobs, PARAMS_JSON, SIZE)
    if len(claimed) != jobs or len(set(claimed)) != jobs:
        raise Broken(f"the bare loop claimed {len(claimed)} of {jobs} jobs")
    return jobs / seconds


async def _claimers(run: Run, server: Postgres, jobs: int) -> float:
    async with server.database(migrated=True) as url, dibs.App(url) as app:
        for start in range(0, jobs, 1000):
            await app.enqueue_many([dibs.NewJob("noop", PARAMS) for _ in range(min(1000, jobs - start))])
        claimed: list[str] = []

        async def work(number: int) -> None:
            while claim := await app.claim(f"worker-{number}"):
                claimed.append(claim.id)
                await claim.complete()

        began = time.perf_counter()
        await asyncio.gather(*(work(number) for number in range(CLAIMERS)))
        seconds = time.perf_counter() - began
        prove_once(run, claimed, jobs)
        await prove_app(app, jobs)
    return jobs / seconds
