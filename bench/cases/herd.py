"""A thousand workers, each a client of its own: what they ask while nothing waits, for each new job, and in the seconds
after all of them have lost their server, or have been started anew, at once.

What is counted are statements, as the server counts them; what is held are ratios of seconds of one run.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from statistics import mean
from typing import Any, NamedTuple

import dibs
from bench.children import Child, started
from bench.run import Broken, Run
from bench.watched import Watched, on_cluster, on_mariadb, on_postgres, on_redis, over_http

QUIET = 2.0
"""By how much any second may be above the steady state, from five seconds after a restart on."""
FREE = 5
"""Seconds after a restart that are not held to that."""
RATE = 50
"""Jobs that are enqueued in a second, where any are."""
MOST_ASK = 0.1
"""Of all workers: so many statements a new job may cost, beside what they ask anyway."""
SETTLE_DOWN = 35.0
"""Seconds after all have come: connections that were needed at the beginning alone are closed after thirty."""
PATIENCE = 400.0


Restart = Callable[[], Coroutine[Any, Any, None]]


class Herd(NamedTuple):
    """One crowd, and what it asks."""

    run: Run
    case: str
    watched: Watched
    crowds: list[Child]  # the first process of those who are there now, at the end

    def told(self, metric: str, unit: str, values: list[float]) -> None:
        self.run.figure(self.case, f"{self.run.workers:,} workers on {self.watched.name}", metric, unit, values)

    async def seconds(self, number: int) -> list[float]:
        """What was asked in each of so many seconds, at the rate of a whole one."""
        found: list[float] = []
        before, then = await self.watched.count(), time.monotonic()
        for _ in range(number):
            await asyncio.sleep(max(0.0, then + 1.0 - time.monotonic()))
            after, now = await self.watched.count(), time.monotonic()
            found.append(max(0.0, after - before if after >= before else after) / (now - then))
            before, then = after, now
        return found


async def _measure(run: Run, case: str, watching: Callable[[Run], AbstractAsyncContextManager[Watched]]) -> None:
    calm, after = run.size(25, 10), FREE + run.size(25, 10)
    async with watching(run) as watched, AsyncExitStack() as stack:
        herd = Herd(run, case, watched, [])
        with run.view.step(f"{run.workers:,} workers on {watched.name}", 5) as step:
            await _begin(herd, stack)
            await _all_there(herd)
            await asyncio.sleep(SETTLE_DOWN)
            herd.told("connections of one", "", [await watched.connections() / run.workers])
            idle = await herd.seconds(calm)
            herd.told(f"{watched.asked} while nothing waits", "/s", idle)
            step.advance()
            await _held(herd, "the server restarts", watched.restart, mean(idle), after)
            step.advance()
            await _held(herd, "all are killed and started anew", partial(_again, herd, stack), mean(idle), after)
            step.advance()
            await asyncio.sleep(SETTLE_DOWN)
            many = await _cost_of_a_job(herd, calm)
            step.advance()
            async with _load(watched.url):
                await asyncio.sleep(2 * FREE)
                busy = await herd.seconds(calm)
                await _held(herd, f"the server restarts, {RATE} jobs a second", watched.restart, mean(busy), after)
            step.advance()
            herd.crowds[-1].stop()
        run.bar(
            f"{case}-job",
            f"{watched.name}: {watched.asked} for each new job over the number of idle workers",
            "×",
            [many / run.workers],
            at_most=MOST_ASK,
        )


async def _held(herd: Herd, about: str, restart: Restart, steady: float, seconds: int) -> None:
    """Restart, and count each second from then on: until all are back, which two cores take their time for, and on."""
    await restart()
    back = asyncio.create_task(_all_there(herd))
    found: list[float] = []
    while not back.done():
        found += await herd.seconds(1)
    await back
    there = len(found)
    found += await herd.seconds(seconds)
    watched, name = herd.watched, about.replace(",", "").replace(" ", "-")
    herd.run.notes.append(
        f"{watched.name}, {about}: {steady:.0f}/s before; from then on, second by second until all were there, "
        + " ".join(f"{rate:.0f}" for rate in found[:there])
        + " | "
        + " ".join(f"{rate:.0f}" for rate in found[there:])
    )
    herd.told(f"{watched.asked} after {about}", "/s", found)
    herd.run.bar(
        f"{herd.case}-{name}",
        f"{watched.name}: {about}: the busiest second from {FREE} s on over the steady state",
        "×",
        [max(found[FREE:]) / steady],
        at_most=QUIET,
    )


# ---------------------------------------------------------------- the crowd


async def _begin(herd: Herd, stack: AsyncExitStack) -> None:
    command = (sys.executable, "-m", "bench.crowd", herd.watched.url, str(herd.run.workers))
    herd.crowds.append(await stack.enter_async_context(started("a crowd of workers", *command)))


async def _all_there(herd: Herd) -> None:
    """Wait until all have said that they are there."""
    there = f"crowd-{herd.crowds[-1].process.pid}-"
    async with dibs.App(herd.watched.url) as app:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with suppress(dibs.StoreUnavailable):  # they come all at once
                if sum(each.worker_id.startswith(there) for each in await app.workers()) == herd.run.workers:
                    break
            await asyncio.sleep(2.0)
        else:
            raise Broken(f"the workers did not all come in {PATIENCE:.0f} s")


async def _again(herd: Herd, stack: AsyncExitStack) -> None:
    """Kill all at once, and start as many."""
    herd.crowds[-1].kill()
    await herd.crowds[-1].process.wait()
    await _begin(herd, stack)


# ---------------------------------------------------------------- jobs


class Load:
    """Jobs that come in one by one, as long as the server takes them in so fast."""

    def __init__(self, app: dibs.App) -> None:
        self._app = app
        self.over = asyncio.Event()
        self.taken_in = 0

    async def run(self) -> None:
        while not self.over.is_set():
            with suppress(dibs.StoreUnavailable):  # it was restarted: whether this one was taken in is not known
                await self._app.enqueue("noop")
                self.taken_in += 1
            with suppress(TimeoutError):
                await asyncio.wait_for(self.over.wait(), 1 / RATE)


@asynccontextmanager
async def _load(url: str) -> AsyncIterator[Load]:
    """Jobs come in meanwhile; and all of them have been done in the end."""
    async with dibs.App(url) as app:
        before, load = await _completed(app), Load(app)
        running = asyncio.create_task(load.run())
        try:
            yield load
        finally:
            load.over.set()
            await running
        await _done(app, before + load.taken_in)


async def _completed(app: dibs.App) -> int:
    while True:
        with suppress(dibs.StoreUnavailable):  # as in _done
            return (await app.counts()).completed


async def _cost_of_a_job(herd: Herd, seconds: int) -> float:
    """What is asked for each job that comes in beyond what is asked anyway."""
    idle = await herd.seconds(seconds)
    async with _load(herd.watched.url) as load:
        await asyncio.sleep(FREE)
        before, began = load.taken_in, time.monotonic()
        busy = await herd.seconds(seconds)
        jobs = (load.taken_in - before) / (time.monotonic() - began)
    cost = max(0.0, (mean(busy) - mean(idle)) / jobs)
    herd.told(f"jobs taken in, where {RATE} a second come", "/s", [jobs])
    herd.told(f"{herd.watched.asked} meanwhile", "/s", busy)
    herd.told(f"{herd.watched.asked} for each new job", "", [cost])
    return cost


async def _done(app: dibs.App, number: int) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with suppress(dibs.StoreUnavailable):  # it is too busy to count them in time
            counts = await app.counts()
            if not counts.pending and not counts.claimed:
                if counts.completed < number:
                    raise Broken(f"{counts.completed} jobs were done, of {number}")
                return
        await asyncio.sleep(0.5)
    raise Broken(f"jobs were left undone for {PATIENCE:.0f} s")


PLACES = {
    "postgres-herd": ("PostgreSQL", on_postgres),
    "mariadb-herd": ("MariaDB", on_mariadb),
    "redis-herd": ("Redis", on_redis),
    "cluster-herd": ("a Redis Cluster", on_cluster),
    "http-herd": ("a dibs server on PostgreSQL", over_http),
}
ABOUT = {
    name: f"a thousand workers on {place}: all restart at once, and a job comes" for name, (place, _) in PLACES.items()
}


def case(name: str) -> Callable[[Run], Coroutine[Any, Any, None]]:
    """The case of that name."""
    return partial(_measure, case=name, watching=PLACES[name][1])
