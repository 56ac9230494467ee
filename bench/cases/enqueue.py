"""Enqueue through the public API: one at a time, ten at once, and a thousand in a call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

import dibs
from bench.run import Run, in_turns
from bench.subjects import PARAMS, STORES, prove_app, url_of


async def enqueue(run: Run) -> None:
    ways: dict[str, tuple[Callable[[dibs.App, int], Awaitable[None]], int]] = {
        "single": (_single, run.size(3_000, 500)),
        "single, ten at once": (_ten, run.size(10_000, 2_000)),
        "by 1,000": (_many, run.size(50_000, 10_000)),
    }
    for way, (do, jobs) in ways.items():
        values = await in_turns(
            run.view,
            f"enqueue {way}",
            run.size(5, 3),
            {store: partial(_turn, run, store, do, jobs) for store in STORES},
        )
        for store in STORES:
            run.figure("enqueue", f"dibs {store}", way, "/s", values[store])


async def _turn(run: Run, store: str, do: Callable[[dibs.App, int], Awaitable[None]], jobs: int) -> float:
    with run.fresh() as folder:
        async with dibs.App(url_of(store, folder)) as app:
            await app.counts()  # opens it
            began = time.perf_counter()
            await do(app, jobs)
            seconds = time.perf_counter() - began
            await prove_app(app, jobs)
    return jobs / seconds


async def _single(app: dibs.App, jobs: int) -> None:
    for _ in range(jobs):
        await app.enqueue("noop", PARAMS)


async def _ten(app: dibs.App, jobs: int) -> None:
    await asyncio.gather(*(_single(app, jobs // 10) for _ in range(10)))


async def _many(app: dibs.App, jobs: int) -> None:
    for _ in range(jobs // 1000):
        await app.enqueue_many([dibs.NewJob("noop", PARAMS) for _ in range(1000)])
