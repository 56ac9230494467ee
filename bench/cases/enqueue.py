"""Enqueue through the public API: one at a time, ten at once, and a thousand in a call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

import dibs
from bench.contenders import PEERS, Contender, introduce
from bench.run import Broken, Run, in_turns
from bench.subjects import PARAMS, STORES, prove_app, url_of


class Way(NamedTuple):
    """One way to enqueue: ours, and the mode of a peer's program that does the same."""

    do: Callable[[dibs.App, int], Awaitable[None]]
    jobs: int
    mode: str | None = None


async def enqueue(run: Run) -> None:
    await introduce(run, PEERS)
    ways = {
        "single": Way(_single, run.size(3_000, 500), "single"),
        "single, ten at once": Way(_ten, run.size(10_000, 2_000)),
        "by 1,000": Way(_many, run.size(50_000, 10_000), "batch"),
    }
    for name, way in ways.items():
        contenders: dict[str, Callable[[], Awaitable[float]]] = {
            f"dibs {store}": partial(_turn, run, store, way) for store in STORES
        }
        for peer in PEERS:
            if way.mode == "single" or (way.mode == "batch" and peer.batch):
                contenders[peer.subject] = partial(_peer, run, peer, way.mode, way.jobs)
        values = await in_turns(run.view, f"enqueue {name}", run.size(5, 3), contenders)
        for subject, rates in values.items():
            run.figure("enqueue", subject, name, "/s", rates)


async def _turn(run: Run, store: str, way: Way) -> float:
    with run.fresh() as folder:
        async with dibs.App(url_of(store, folder)) as app:
            await app.counts()  # opens it
            began = time.perf_counter()
            await way.do(app, way.jobs)
            seconds = time.perf_counter() - began
            await prove_app(app, way.jobs)
    return way.jobs / seconds


async def _peer(run: Run, peer: Contender, mode: str, jobs: int) -> float:
    with run.fresh() as folder:
        news = await peer.ask(mode, folder, jobs)
    if news["left"] != jobs:
        raise Broken(f"{peer.name}: {jobs} jobs were put in, {news['left']} are there")
    return float(jobs / news["seconds"])


async def _single(app: dibs.App, jobs: int) -> None:
    for _ in range(jobs):
        await app.enqueue("noop", PARAMS)


async def _ten(app: dibs.App, jobs: int) -> None:
    await asyncio.gather(*(_single(app, jobs // 10) for _ in range(10)))


async def _many(app: dibs.App, jobs: int) -> None:
    for _ in range(jobs // 1000):
        await app.enqueue_many([dibs.NewJob("noop", PARAMS) for _ in range(1000)])
