"""From one process to another through PostgreSQL: how soon a waiting worker starts a job, beside the peers'."""

from __future__ import annotations

from bench.cases.pickup import pickup_on
from bench.contenders import ON_POSTGRES
from bench.postgres import serving
from bench.run import Run


async def pickup(run: Run) -> None:
    async with serving(run) as server:
        await pickup_on(run, "postgres-pickup", server, ON_POSTGRES, at_most=1.0)
