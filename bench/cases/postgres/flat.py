"""What one claim costs on PostgreSQL when much is stored: it should be what it costs when little is.

As ``flat``, but what lies in the way is made by the server itself, in the real tables: a million jobs through the store
would take longer than all the rest. The finished ones have their log, too. What is claimed came in through the store.
"""

from __future__ import annotations

import asyncpg

from bench.cases.flat import HOUR_US, RARE, Stock, flat_on
from bench.postgres import serving
from bench.run import Run
from bench.subjects import draft, insert
from dibs.clock import Clock
from dibs.store import Store

MORE = """
INSERT INTO dibs_job (lane, due, first_due, created, updated, lease, kept, max_attempts, id, terms, params, status,
  events, fence, attempts, worker_id, token, settled_as, claimed, claim_lease, lease_expires, completed, expires)
SELECT lane, due + n * $2::bigint, due + n * $2::bigint, created, updated, lease, kept, max_attempts,
  'more-' || lpad(n::text, 10, '0'), terms, params, $3, CASE $3 WHEN 'completed' THEN 3 ELSE 1 END,
  CASE $3 WHEN 'completed' THEN 1 ELSE 0 END, CASE $3 WHEN 'completed' THEN 1 ELSE 0 END,
  CASE $3 WHEN 'completed' THEN 'bench' END, CASE $3 WHEN 'completed' THEN 'token' END,
  CASE $3 WHEN 'completed' THEN 'completed' END, CASE $3 WHEN 'completed' THEN updated END,
  CASE $3 WHEN 'completed' THEN lease END, CASE $3 WHEN 'completed' THEN updated + lease END,
  CASE $3 WHEN 'completed' THEN updated END, CASE $3 WHEN 'completed' THEN updated + kept + n END
FROM (SELECT * FROM dibs_job ORDER BY seq LIMIT 1) AS pattern, generate_series(1, $1::integer) AS n
"""
EVENTS = """
INSERT INTO dibs_event (job, n, event, before, after, worker_id, fence, attempts, due, lease_expires, at)
SELECT seq, 2 + step, (ARRAY['claimed', 'completed'])[1 + step], (ARRAY['pending', 'claimed'])[1 + step],
  (ARRAY['claimed', 'completed'])[1 + step], worker_id, 1, step, due, lease_expires, updated
FROM dibs_job CROSS JOIN generate_series(0, 1) AS step WHERE status = 'completed' ORDER BY seq, step
"""


async def flat(run: Run) -> None:
    async with serving(run) as server:
        await flat_on(run, server, turns=run.size(11, 7), claims=run.size(50, 30), fill=fill, log=False)


async def fill(_run: Run, store: Store, url: str, stock: Stock) -> None:
    """Put so much in the way, and so many due jobs beside it; then leave it as vacuum would."""
    clock, (shape, backlog, due) = Clock(), stock
    await insert(store, [draft(clock, delay_us=HOUR_US if shape.name == "scheduled" else 0)])
    connection = await asyncpg.connect(url, timeout=600, command_timeout=600)
    try:
        await connection.execute(
            MORE,
            backlog - 1,
            1 if shape.name == "scheduled" else 0,
            "completed" if shape.name == "finished" else "pending",
        )
        if shape.name == "finished":
            await connection.execute(EVENTS)
        if shape.name != "pending":  # there it is the head of the backlog that is claimed
            task = RARE if shape.name == "rare" else "noop"
            await insert(store, (draft(clock, task) for _ in range(due)))
        await connection.execute("VACUUM ANALYZE")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()
