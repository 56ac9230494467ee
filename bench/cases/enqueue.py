"""Enqueue through the public API: one at a time, ten at once, and a thousand in a call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

import dibs
from bench.contenders import PEERS, Contender, Field, Home, files, introduce, prove_own
from bench.places import Place, at
from bench.run import Broken, Run, best, in_turns, ratios
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


async def enqueue_on(run: Run, case: str, place: Place, field: Field, *, at_least: float) -> None:
    """On a server: each in a process of its own, ours too; who has no call for many does them one by one."""
    home = at(place)
    await introduce(run, field.everyone, home)
    singles, many = run.size(3_000, 500), run.size(20_000, 5_000)
    ways: dict[str, dict[str, Callable[[], Awaitable[float]]]] = {"single": {}, "by 1,000": {}}
    for who in field.everyone:
        one_by_one = partial(_peer, run, who, "single", singles, home)
        ways["single"][who.subject] = one_by_one
        ways["by 1,000"][who.subject] = partial(_peer, run, who, "batch", many, home) if who.batch else one_by_one
    for name, contenders in ways.items():
        found = await in_turns(run.view, f"{case} {name}", run.size(5, 3), contenders)
        for who in field.everyone:
            metric = name if who.batch or name == "single" else f"{name}: has no such call, so single"
            run.figure(case, who.subject, metric, "/s", found[who.subject])
        if name != "single":
            hold(run, case, field, found, at_least=at_least)


def hold(run: Run, case: str, field: Field, found: dict[str, list[float]], *, at_least: float) -> None:
    first = best({who.subject: found[who.subject] for who in field.peers})
    run.bar(
        case,
        f"enqueue by 1,000 on {field.title}, over the best peer of the run in its best way, {first}",
        "×",
        ratios(found[field.ours.subject], found[first]),
        at_least=at_least,
    )


async def _turn(run: Run, store: str, way: Way) -> float:
    with run.fresh() as folder:
        async with dibs.App(url_of(store, folder)) as app:
            await app.counts()  # opens it
            began = time.perf_counter()
            await way.do(app, way.jobs)
            seconds = time.perf_counter() - began
            await prove_app(app, way.jobs)
    return way.jobs / seconds


async def _peer(run: Run, peer: Contender, mode: str, jobs: int, home: Home = files) -> float:
    async with home(run) as folder:
        news = await peer.ask(mode, folder, jobs)
        if news["left"] != jobs:
            raise Broken(f"{peer.name}: {jobs} jobs were put in, {news['left']} are there")
        await prove_own(run, peer, folder, jobs)
    return float(jobs / news["seconds"])


async def _single(app: dibs.App, jobs: int) -> None:
    for _ in range(jobs):
        await app.enqueue("noop", PARAMS)


async def _ten(app: dibs.App, jobs: int) -> None:
    await asyncio.gather(*(_single(app, jobs // 10) for _ in range(10)))


async def _many(app: dibs.App, jobs: int) -> None:
    for _ in range(jobs // 1000):
        await app.enqueue_many([dibs.NewJob("noop", PARAMS) for _ in range(1000)])
