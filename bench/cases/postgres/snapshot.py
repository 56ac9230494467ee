"""What a claim costs while another transaction holds an old snapshot open, and dead rows cannot be removed.

Jobs come in at an even pace and are claimed and settled by the hundred, for two minutes; beside it the same on a
database where no one holds anything. The first and the last stretch are compared.
"""

from __future__ import annotations

import asyncio
import time
from statistics import median

import asyncpg

from bench.postgres import serving
from bench.run import Run, percentile
from bench.subjects import broker_over, claim, draft, insert, opened_at, prove_log, prove_once, settle
from dibs.clock import Clock
from dibs.store import Store

CASE = "postgres-snapshot"
RATE, BATCH = 2_000, 100
STRETCH = 10.0
"""Seconds at the start and at the end that are compared."""
AT_MOST = 1.5


class Churn:
    """One database through which jobs go at an even pace."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.broker = broker_over(store)
        self.clock = Clock()
        self.claimed: list[str] = []
        self.claims: list[tuple[float, float]] = []  # when, and how many milliseconds it took

    async def step(self, since: float) -> None:
        await insert(self.store, (draft(self.clock) for _ in range(BATCH)))
        began = time.perf_counter()
        jobs = await claim(self.broker, BATCH)
        self.claims.append((began - since, 1e3 * (time.perf_counter() - began)))
        self.claimed += [job.id for job in jobs]
        await settle(self.broker, jobs)

    def p50(self, begin: float, end: float) -> float:
        return median(took for at, took in self.claims if begin <= at < end)


async def snapshot(run: Run) -> None:
    seconds = run.size(120, 30)
    async with (
        serving(run) as server,
        server.database(migrated=True) as held,
        server.database(migrated=True) as free,
        opened_at(held) as store,
        opened_at(free) as other,
    ):
        churns = {"a snapshot held open": Churn(store), "nothing held": Churn(other)}
        holder = await asyncpg.connect(held)
        await holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await holder.fetch("SELECT count(*) FROM dibs_job")  # from here on it sees what was then
        for churn in churns.values():
            await churn.step(time.perf_counter())  # to warm up
            churn.claims.clear()
        took = await _churn(run, list(churns.values()), seconds)
        await holder.close()
        for about, churn in churns.items():
            jobs = len(churn.claimed)
            prove_once(run, churn.claimed, jobs)
            await prove_log(run, churn.store, CASE, jobs)
            subject = f"dibs postgres, {about}"
            run.figure(CASE, subject, f"jobs through, {seconds} s", "/s", [jobs / took])
            run.figure(CASE, subject, f"claim of {BATCH}, p50, first {STRETCH:g} s", "ms", [churn.p50(0, STRETCH)])
            last = churn.p50(took - STRETCH, took)
            run.figure(CASE, subject, f"claim of {BATCH}, p50, last {STRETCH:g} s", "ms", [last])
            run.figure(CASE, subject, f"claim of {BATCH}, p99", "ms", [percentile([ms for _, ms in churn.claims], 99)])
        first, control = churns.values()
        grown, anyway = (it.p50(took - STRETCH, took) / it.p50(0, STRETCH) for it in (first, control))
        # A machine that others use is not the same at both ends: what the other database saw there says how much.
        run.figure(
            CASE,
            "dibs postgres, a snapshot held open",
            "last over first, over the same with nothing held",
            "×",
            [grown / anyway],
        )
        run.bar(
            CASE,
            f"a claim of {BATCH} after {seconds} s of a held snapshot at {RATE:,} jobs a second, over one at its start",
            "×",
            [grown],
            at_most=AT_MOST,
        )


async def _churn(run: Run, churns: list[Churn], seconds: int) -> float:
    began = time.perf_counter()
    with run.view.step(CASE, seconds * RATE // BATCH) as step:
        for number in range(seconds * RATE // BATCH):
            for churn in churns:
                await churn.step(began)
            step.advance()
            await asyncio.sleep(max(0.0, began + (number + 1) * BATCH / RATE - time.perf_counter()))
    return time.perf_counter() - began
