"""Ten concurrent claimers in one process, each claiming one job at a time and completing it, through the public API."""

from __future__ import annotations

import asyncio
import time
from functools import partial

import dibs
from bench.places import Files, Place
from bench.run import Run, in_turns
from bench.subjects import PARAMS, STORES, prove_app, prove_once

CLAIMERS = 10
SEED = 100
"""Claims a second of the program that dibs follows; the bar is twenty times that."""


async def claimers(run: Run) -> None:
    jobs = run.size(10_000, 2_000)
    values = await in_turns(
        run.view,
        "ten claimers",
        run.size(5, 3),
        {store: partial(turn, run, Files(run, store), jobs) for store in STORES},
    )
    for store in STORES:
        run.figure("ten-claimers", f"dibs {store}", "claim+complete", "/s", values[store])
    run.bar(
        "ten-claimers",
        "one process, ten single claimers on SQLite, claim+complete",
        "/s",
        values["sqlite"],
        at_least=20 * SEED,
    )


async def turn(run: Run, place: Place, jobs: int) -> float:
    async with place.database(migrated=True) as url, dibs.App(url) as app:
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
