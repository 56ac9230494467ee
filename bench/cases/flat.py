"""What one claim costs when much is stored: it should be what it costs when little is.

Each shape is made in several sizes that lie side by side. One job is claimed from each in turn, through the broker, so
that a slow moment of the disk is one for all of them; completing what was claimed is not timed.
"""

from __future__ import annotations

import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from statistics import median
from typing import NamedTuple

from bench.places import Files, Place
from bench.run import Run, percentile, ratios
from bench.subjects import STORES, broker_over, claim, draft, finish, insert, opened_at, prove_log, prove_once, settle
from dibs.broker.local import LocalBroker
from dibs.clock import Clock
from dibs.domain.job import Draft
from dibs.store import Store

AT_MOST = 1.3
HOUR_US = 3_600_000_000
RARE = "rare"


class Shape(NamedTuple):
    """What lies in the way of a claim: ``backlog`` of it, beside the due jobs that are there to be claimed."""

    name: str
    about: str
    tasks: tuple[str, ...] | None = None


SHAPES = (
    Shape("pending", "pending"),
    Shape("finished", "finished"),
    Shape("scheduled", "scheduled"),
    Shape("rare", "others, for a rare task", (RARE,)),
)


class Subject:
    """One store of one size, and what has been claimed from it."""

    def __init__(self, backlog: int, store: Store, tasks: tuple[str, ...] | None) -> None:
        self.backlog, self.store, self.tasks = backlog, store, tasks
        self.broker: LocalBroker = broker_over(store)
        self.claimed: list[str] = []
        self.micros: list[float] = []

    async def claim(self) -> None:
        began = time.perf_counter()
        jobs = await claim(self.broker, 1, self.tasks)
        self.micros.append(1e6 * (time.perf_counter() - began))
        self.claimed += [job.id for job in jobs]
        await settle(self.broker, jobs)

    def p50(self, claims: int) -> list[float]:
        """The median of each turn but the first, which was there to warm up."""
        return [median(self.micros[start : start + claims]) for start in range(claims, len(self.micros), claims)]


class Stock(NamedTuple):
    """What a database is filled with: so much in the way, and so many due jobs that are there to be claimed."""

    shape: Shape
    backlog: int
    due: int

    @property
    def total(self) -> int:
        return self.backlog if self.shape.name == "pending" else self.backlog + self.due


Filler = Callable[[Run, Store, str, Stock], Awaitable[None]]
"""Fills a store, or the database with that URL that it is on."""


async def flat(run: Run) -> None:
    for store in STORES:
        await flat_on(run, Files(run, store), turns=run.size(21, 11), claims=run.size(100, 50))


async def flat_on(
    run: Run, place: Place, *, turns: int, claims: int, fill: Filler | None = None, log: bool = True
) -> None:
    """Measure every shape in three sizes; with a log of every job, it is proved as well."""
    sizes = (10_000, run.size(100_000, 30_000), run.size(1_000_000, 100_000))
    due = (turns + 1) * claims  # one turn to warm up
    for shape in SHAPES:
        title = f"flat: {place.store}, {shape.name}"
        async with AsyncExitStack() as stack:
            subjects: list[Subject] = []
            for backlog in sizes:
                url = await stack.enter_async_context(place.database(migrated=True))
                filled = _filled(run, url, Stock(shape, backlog, due), fill or through_store)
                subjects.append(Subject(backlog, await stack.enter_async_context(filled), shape.tasks))
            await _measure(run, title, subjects, due)
            for subject in subjects:
                prove_once(run, subject.claimed, due)
                if log:
                    await prove_log(run, subject.store, title, Stock(shape, subject.backlog, due).total)
        leave(run, place.store, shape, subjects, claims)


@asynccontextmanager
async def _filled(run: Run, url: str, stock: Stock, fill: Filler) -> AsyncIterator[Store]:
    """Filled, then opened anew: nothing is left in its cache, nor in a write-ahead log. Memory would be gone, too."""
    async with opened_at(url) as store:
        await fill(run, store, url, stock)
        if url == "memory://":
            yield store
            return
    async with opened_at(url) as store:
        yield store


async def _measure(run: Run, title: str, subjects: list[Subject], due: int) -> None:
    gc.collect()
    with run.view.step(title, due) as step:
        for number in range(due):
            shift = number % len(subjects)
            for subject in subjects[shift:] + subjects[:shift]:
                await subject.claim()
            step.advance()


def leave(run: Run, store: str, shape: Shape, subjects: list[Subject], claims: int) -> None:
    """Leave what was found with the run: a figure for each size, a curve, and the bar."""
    for subject in subjects:
        name = f"dibs {store}, {subject.backlog:,} {shape.about}"
        run.figure("flat", name, "claim of one, p50", "µs", subject.p50(claims))
        run.figure("flat", name, "claim of one, p99", "µs", [percentile(subject.micros[claims:], 99)])
    curve = [(subject.backlog, median(subject.p50(claims))) for subject in subjects]
    run.curves.setdefault(store, {})[shape.name] = curve
    small, large = subjects[0], subjects[-1]
    run.bar(
        f"flat-{store}-{shape.name}",
        f"a claim with {large.backlog:,} {shape.about}, over one with {small.backlog:,}",
        "×",
        ratios(large.p50(claims), small.p50(claims)),
        at_most=AT_MOST,
    )


async def through_store(run: Run, store: Store, _url: str, stock: Stock) -> None:
    """As anyone would: enqueued, and if need be claimed and completed."""
    clock, (shape, backlog, due) = Clock(), stock
    with run.view.step(f"{shape.name}: fill {backlog:,}", backlog) as step:
        told: Callable[[int], None] = step.advance
        if shape.name == "pending":  # what is claimed is the head of it
            await insert(store, (draft(clock) for _ in range(backlog)), told)
        elif shape.name == "rare":
            await insert(store, _spread(clock, backlog, due), told)
        elif shape.name == "scheduled":
            await insert(store, (draft(clock, delay_us=HOUR_US + n) for n in range(backlog)), told)
            await insert(store, (draft(clock) for _ in range(due)))
        else:
            for start in range(0, backlog, 10_000):
                number = min(10_000, backlog - start)
                await insert(store, (draft(clock) for _ in range(number)), told)
                await finish(store, number)
            await insert(store, (draft(clock) for _ in range(due)))


def _spread(clock: Clock, backlog: int, due: int) -> Iterator[Draft]:
    """Yield the rare ones evenly among the others."""
    given = 0
    for n in range(backlog):
        yield draft(clock)
        while given * backlog < (n + 1) * due and given < due:
            given += 1
            yield draft(clock, RARE)
