"""Claim and settle in batches: the broker, the store under it, and the bare engine, in turns on fresh files."""

from __future__ import annotations

import asyncio
import cProfile
import io
import pstats
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from statistics import median

from bench.bare import Bare, syncs
from bench.places import Files, Place
from bench.run import Broken, Run, in_turns, ratios
from bench.subjects import (
    PARAMS_JSON,
    broker_over,
    claim,
    complete_all,
    draft,
    insert,
    opened,
    opened_at,
    prove_log,
    prove_once,
    request,
    settle,
)
from dibs.clock import Clock
from dibs.store import Store

BATCHES = (100, 10, 1)
SHARE = 0.4
"""The part of the bare engine's rate that is left when leases, fences, the log and the broker have had theirs."""
SLOW_DISK = 2_000
"""Syncs a second below which a batch of 100 is mostly spent waiting for the disk."""


async def batch(run: Run) -> None:
    sqlite = Files(run, "sqlite")
    for size in BATCHES:
        jobs = run.size({100: 20_000, 10: 6_000, 1: 1_500}[size], {100: 5_000, 10: 1_500, 1: 400}[size])
        values = await in_turns(
            run.view,
            f"batches of {size}",
            run.size(7, 3),
            {
                "dibs broker, sqlite": partial(ours, run, sqlite, ahead, jobs, size),
                "dibs broker, sqlite, one after the other": partial(ours, run, sqlite, through_broker, jobs, size),
                "dibs broker, sqlite, two claimers": partial(ours, run, sqlite, _two, jobs, size),
                "bare apsw": partial(_bare, run, jobs, size),
                "dibs store, sqlite": partial(ours, run, sqlite, through_store, jobs, size),
                "dibs broker, memory": partial(ours, run, Files(run, "memory"), through_broker, jobs, size),
                "this disk": partial(_disk, run),
            },
        )
        disk = values.pop("this disk")
        run.figure("batch", "this disk", "page written and synced", "/s", disk)
        for subject, rates in values.items():
            run.figure("batch", subject, f"claim+settle by {size}", "/s", rates)
        if size == 100:
            run.bar(
                "batch-100",
                "claim+settle of 100 through the broker on SQLite, as a worker does it, over the bare apsw loop",
                "×",
                ratios(values["dibs broker, sqlite"], values["bare apsw"]),
                at_least=SHARE,
            )
            if median(disk) < SLOW_DISK:
                run.notes.append(
                    "the disk was slow or busy: batch-100 compares how long two loops wait for it, and says little "
                    "about what dibs costs. --dir with a faster one says more."
                )
    if run.profile:
        run.profiles["batch-100"] = await _profile(run, run.size(20_000, 5_000))


async def _disk(run: Run) -> float:
    with run.fresh() as folder:
        return syncs(folder / "page", 50)


async def _bare(run: Run, jobs: int, size: int) -> float:
    with run.fresh() as folder:
        bare = Bare(folder / "bare.db", jobs, PARAMS_JSON)
        seconds, claimed = bare.drain(size)
        bare.close()
    return rate_of(jobs, seconds, claimed)


def rate_of(jobs: int, seconds: float, claimed: Sequence[object]) -> float:
    """What a bare loop reached, if it claimed each job once."""
    if len(claimed) != jobs or len(set(claimed)) != jobs:
        raise Broken(f"the bare loop claimed {len(claimed)} of {jobs} jobs")
    return jobs / seconds


Drain = Callable[[Store, int, list[str]], Awaitable[None]]


async def ours(run: Run, place: Place, drain: Drain, jobs: int, size: int) -> float:
    async with place.database(migrated=True) as url, opened_at(url) as subject:
        await _insert(subject, jobs)
        claimed: list[str] = []
        began = time.perf_counter()
        await drain(subject, size, claimed)
        seconds = time.perf_counter() - began
        prove_once(run, claimed, jobs)
        await prove_log(run, subject, "batches", jobs)
    return jobs / seconds


async def _insert(store: Store, jobs: int) -> None:
    clock = Clock()
    await insert(store, (draft(clock) for _ in range(jobs)))


async def through_broker(store: Store, size: int, claimed: list[str]) -> None:
    broker = broker_over(store)
    while jobs := await claim(broker, size):
        claimed += [job.id for job in jobs]
        await settle(broker, jobs)


async def _two(store: Store, size: int, claimed: list[str]) -> None:
    """Two who claim in one process: while one batch is on its way the next one gathers."""
    await asyncio.gather(through_broker(store, size, claimed), through_broker(store, size, claimed))


async def ahead(store: Store, size: int, claimed: list[str]) -> None:
    """As a worker does it: what is done is settled while the next jobs are claimed, and both meet in one commit."""
    broker = broker_over(store)
    jobs = await claim(broker, size)
    while jobs:
        claimed += [job.id for job in jobs]
        _, jobs = await asyncio.gather(settle(broker, jobs), claim(broker, size))


async def through_store(store: Store, size: int, claimed: list[str]) -> None:
    while True:
        [jobs] = await store.claim([request(size)])
        if not jobs:
            return
        claimed += [job.id for job in jobs]
        await complete_all(store, jobs)


async def _profile(run: Run, jobs: int) -> str:
    """Say where the time goes, in the caller's thread and the store's. It is slower for that: no figure comes of it."""
    mine = cProfile.Profile()
    others: list[cProfile.Profile] = []
    text = io.StringIO()
    with run.fresh() as folder:

        def begin(*_: object) -> None:
            profile = cProfile.Profile()
            others.append(profile)
            threading.setprofile(None)
            profile.enable()

        threading.setprofile(begin)
        async with opened("sqlite", folder) as subject:
            await _insert(subject, jobs)
            mine.enable()
            await through_broker(subject, 100, [])
            mine.disable()
        threading.setprofile(None)
    for name, profile in (("the caller's thread", mine), *(("a thread of the store", p) for p in others)):
        print(f"-- {name}", file=text)
        pstats.Stats(profile, stream=text).strip_dirs().sort_stats("tottime").print_stats(15)
    return text.getvalue()
