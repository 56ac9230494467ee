"""What one claim costs on Redis when much is stored, and what memory a pending job takes."""

from __future__ import annotations

from bench.cases.flat import Stock, flat_on, through_store
from bench.redis import Redis, serving
from bench.run import Run
from bench.subjects import PARAMS_JSON
from dibs.store import Store

CASE = "redis-memory"
AT_MOST = 1024


async def flat(run: Run) -> None:
    async with serving(run) as server:
        scales = Scales(server)
        await flat_on(run, server, turns=run.size(21, 11), claims=run.size(100, 50), fill=scales.fill)
    for jobs, size in scales.taken.items():
        run.figure(CASE, f"dibs redis, {jobs:,} pending", "memory for one, without its params", "bytes", [size])
    run.bar(
        CASE,
        "Redis: what a pending job takes beside its params, with all indexes and its log",
        "bytes",
        [scales.taken[max(scales.taken)]],
        at_most=AT_MOST,
    )


class Scales:
    """Fills a store, and notes what the server took for each job if all of them are pending."""

    def __init__(self, server: Redis) -> None:
        self._server = server
        self.taken: dict[int, float] = {}

    async def fill(self, run: Run, store: Store, url: str, stock: Stock) -> None:
        before = self._server.memory()
        await through_store(run, store, url, stock)
        if stock.shape.name == "pending":
            self.taken[stock.backlog] = (self._server.memory() - before) / stock.backlog - len(PARAMS_JSON)
