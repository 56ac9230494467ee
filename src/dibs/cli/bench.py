"""``dibs bench``: what a store of yours does, where it is, from where you are."""

from __future__ import annotations

import asyncio
import time
from statistics import median
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import Parameter

from dibs.cli.asking import progress
from dibs.cli.load import place_of
from dibs.cli.options import Link
from dibs.cli.output import Column, print_json, print_table, remark
from dibs.domain.checks import check_integer
from dibs.domain.errors import InvalidRequest, WrongState
from dibs.domain.newjob import NewJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.app import App

TASK = "dibs-bench"
ALONE = 200
"""Jobs that are enqueued, and ended, one at a time."""
PICKUPS = 50
GROUP = 1000
BATCH = 100
_PARAMS = {"to": "someone@example.com", "subject": "a job like many", "number": 1}


class Figures(msgspec.Struct, frozen=True):
    """What was measured."""

    jobs: int
    enqueued_alone_per_second: float
    enqueued_per_second: float  # by a thousand
    ended_alone_per_second: float  # claimed and completed
    ended_per_second: float  # by a hundred
    pickup_ms: float  # from the enqueue to the claim that waits for it


def bench(
    *,
    jobs: Annotated[int, Parameter(help="How many are enqueued, claimed and completed in batches.")] = 10_000,
    json: Annotated[bool, Parameter(help="Print the figures as JSON.", negative=())] = False,
    link: Link = Link(),
) -> int:
    """Measure a store: how fast jobs are enqueued, claimed and completed from here, one at a time and in batches.

    In a queue of its own, which leaves no jobs behind. It takes what the store can give: not beside work that matters.
    """
    if problems := check_integer("jobs", jobs, BATCH, 1_000_000):
        raise InvalidRequest(problems)
    with link.app(make=True) as app, progress("measuring", 2 * (ALONE + jobs) + PICKUPS, quiet=json) as advance:
        figures = app.runtime.run(_Bench(app, advance).measure(jobs))
        where = place_of(app) or repr(app)
    if json:
        print_json(figures)
        return 0
    rows = [
        ("enqueue, one at a time", f"{figures.enqueued_alone_per_second:,.0f} /s"),
        (f"enqueue by {GROUP:,}", f"{figures.enqueued_per_second:,.0f} /s"),
        ("claim and complete, one at a time", f"{figures.ended_alone_per_second:,.0f} /s"),
        (f"claim and complete by {BATCH}", f"{figures.ended_per_second:,.0f} /s"),
        ("from the enqueue to a claim that waits", f"{figures.pickup_ms:,.1f} ms"),
    ]
    print_table((Column("WHAT", whole=True), Column("MEDIAN, OR RATE", right=True)), rows)
    remark(f"one process, one connection at a time, {jobs:,} jobs, on {where}")
    return 0


class _Bench:
    """One run, on the loop of whoever calls."""

    def __init__(self, app: App, advance: Callable[[int], None]) -> None:
        self._app, self._advance = app, advance
        self._queue = f"{TASK}/{app.runtime.clock.token()}"

    async def measure(self, jobs: int) -> Figures:
        try:
            await self._app.enqueue_many([self._job()])  # whatever has to be opened is open now
            await self._work_off()
            alone = await self._enqueue(ALONE, 1)
            ended_alone = await self._end(ALONE, 1)
            pickup = await self._pick_up()
            many = await self._enqueue(jobs, GROUP)
            ended = await self._end(jobs, BATCH)
        finally:
            await self._work_off()
        return Figures(jobs, alone, many, ended_alone, ended, pickup)

    def _job(self) -> NewJob:
        return NewJob(TASK, _PARAMS, queue=self._queue, retention=0)

    async def _enqueue(self, number: int, size: int) -> float:
        began = time.perf_counter()
        for first in range(0, number, size):
            some = min(size, number - first)
            await self._app.enqueue_many([self._job() for _ in range(some)])
            self._advance(some)
        return number / (time.perf_counter() - began)

    async def _end(self, number: int, size: int) -> float:
        began, ended = time.perf_counter(), 0
        while ended < number:
            claims = await self._app.claim_many(TASK, limit=size, queues=[self._queue], tasks=[TASK], wait=10)
            if not claims:
                raise WrongState(f"someone else takes the jobs of {self._queue}", hint="Stop workers of all queues.")
            await asyncio.gather(*(claim.complete() for claim in claims))
            ended += len(claims)
            self._advance(len(claims))
        return number / (time.perf_counter() - began)

    async def _pick_up(self) -> float:
        seconds: list[float] = []
        for _ in range(PICKUPS):
            waiting = asyncio.ensure_future(self._app.claim(TASK, queues=[self._queue], tasks=[TASK], wait=30))
            await asyncio.sleep(0.02)  # it waits by now
            began = time.perf_counter()
            await self._app.enqueue_many([self._job()])
            claim = await waiting
            seconds.append(time.perf_counter() - began)
            if claim is not None:
                await claim.complete()
            self._advance(1)
        return 1000 * median(seconds)

    async def _work_off(self) -> None:
        """Leave nothing behind: what is completed is not kept."""
        while claims := await self._app.claim_many(TASK, limit=GROUP, queues=[self._queue], tasks=[TASK]):
            await asyncio.gather(*(claim.complete() for claim in claims))
