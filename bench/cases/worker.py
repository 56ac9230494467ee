"""What a worker costs: beside a bare loop of claims and settles, while its handlers sleep, and in memory."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial

import dibs
from bench import postgres as postgres_server
from bench import redis as redis_server
from bench.cases.batch import ahead, ours
from bench.children import started
from bench.places import Files, Place
from bench.run import Broken, Run, in_turns, ratios
from bench.subjects import GROUP, draft, insert, opened_at, prove_app, url_of
from dibs.clock import Clock

CASE = "worker"
SIZE = 100
"""Jobs that the bare loop claims at once, and handlers that the worker runs at once."""
SHARE = 0.4
"""The part of the bare loop's rate that is left when each job has had its task, its context and its handler."""
SLEEP = 0.1
IDEAL = 1.1
IDLE_MIB = 60.0
GROWN = 1.1


async def worker(run: Run) -> None:
    async with AsyncExitStack() as stack:
        postgres = await stack.enter_async_context(postgres_server.serving(run))
        redis = await stack.enter_async_context(redis_server.serving(run))
        for place in (Files(run, "sqlite"), postgres, redis):
            await _rates(run, place)
        await _sleepers(run, Files(run, "sqlite"))
    await _sizes(run)


async def _rates(run: Run, place: Place) -> None:
    jobs, loop, own = run.size(20_000, 4_000), f"dibs broker, {place.store}", f"dibs worker, {place.store}"
    threads, processes = f"{own}, handlers in threads", f"{own}, handlers in processes"
    found = await in_turns(
        run.view,
        f"a worker on {place.store}",
        run.size(5, 3),
        {
            loop: partial(ours, run, place, ahead, jobs, SIZE),
            own: partial(_worked, run, place, jobs, _async),
            threads: partial(_worked, run, place, jobs // 4, _sync),
            processes: partial(_worked, run, place, jobs // 10, _in_processes),
        },
    )
    run.figure(CASE, loop, f"claim+settle by {SIZE}", "/s", found[loop])
    for subject in (own, threads, processes):
        run.figure(CASE, subject, "no-op jobs", "/s", found[subject])
    what = f"no-op jobs of a worker on {place.store}, over a bare loop of claims and settles by {SIZE}"
    run.bar(f"{CASE}-{place.store}", what, "×", ratios(found[own], found[loop]), at_least=SHARE)


def _async(app: dibs.App, done: list[int]) -> None:
    @app.task
    async def noop(to: str, subject: str, number: int) -> None:
        done.append(number)


def _sync(app: dibs.App, done: list[int]) -> None:
    @app.task
    def noop(to: str, subject: str, number: int) -> None:
        done.append(number)


def elsewhere(to: str, subject: str, number: int) -> None:
    """Do nothing, in a process that finds this by its name. That it was done is proven by the log alone."""


def _in_processes(app: dibs.App, done: list[int]) -> None:
    app.task("noop", process=True)(elsewhere)


def _sleeping(app: dibs.App, done: list[int]) -> None:
    @app.task
    async def noop(to: str, subject: str, number: int) -> None:
        await asyncio.sleep(SLEEP)
        done.append(number)


async def _worked(run: Run, place: Place, jobs: int, define: Callable[[dibs.App, list[int]], None]) -> float:
    """Jobs a second, from the worker's start until it finds nothing more."""
    done: list[int] = []
    async with place.database(migrated=True) as url, dibs.App(url) as app:
        define(app, done)
        for first in range(0, jobs, GROUP):
            await app.enqueue_many(
                [
                    dibs.NewJob("noop", {"to": "someone@example.com", "subject": "a job", "number": n})
                    for n in range(first, min(first + GROUP, jobs))
                ]
            )
        began = time.perf_counter()
        await dibs.Worker(app, concurrency=SIZE).run(until_idle=True)
        seconds = time.perf_counter() - began
        if define is not _in_processes and sorted(done) != list(range(jobs)):
            raise Broken(f"{jobs} jobs, {len(done)} handled, {len(set(done))} different ones")
        await prove_app(app, jobs)
    run.jobs_checked += jobs
    return jobs / seconds


async def _sleepers(run: Run, place: Place) -> None:
    jobs = 10 * SIZE
    turn = partial(_worked, run, place, jobs, _sleeping)
    rates = (await in_turns(run.view, "handlers that sleep", run.size(5, 3), {"sleepers": turn}))["sleepers"]
    ideal = SLEEP * jobs / SIZE
    what = f"{jobs:,} jobs that sleep {SLEEP:g} s, {SIZE} at once: the worker's time, over {ideal:g} s"
    run.bar(f"{CASE}-sleepers", what, "×", [jobs / rate / ideal for rate in rates], at_most=IDEAL)


async def _sizes(run: Run) -> None:
    jobs, clock = run.size(1_000_000, 50_000), Clock()
    with run.fresh() as folder:
        [idle] = await _sizes_of(url_of("sqlite", folder), 0, "idle")
    with run.fresh() as folder:
        url = url_of("sqlite", folder)
        async with opened_at(url) as store:
            # All of them first: beside a producer, what the page cache holds depends on who is ahead of whom.
            with run.view.step("a worker's memory", jobs) as step:
                await insert(store, (draft(clock) for _ in range(jobs)), step.advance)
        warm, after = await _sizes_of(url, jobs, "warm", "after")
    run.jobs_checked += jobs
    run.figure(CASE, "dibs worker, sqlite", f"memory after {jobs:,} jobs", "MiB", [after])
    run.bar(f"{CASE}-idle", "an idle worker process on SQLite: memory", "MiB", [idle], at_most=IDLE_MIB)
    what = f"a worker's memory after {jobs:,} jobs, over that after the first tenth"
    if not run.quick:  # the page cache takes longer than that to fill
        run.bar(f"{CASE}-grown", what, "×", [after / warm], at_most=GROWN)


async def _sizes_of(url: str, jobs: int, *when: str) -> list[float]:
    async with started("a worker process", sys.executable, "-m", "bench.ran", url, str(jobs)) as child:
        sizes: list[float] = [(await child.line())[each] for each in when]
        child.stop()
    return sizes
