"""What one claim costs on PostgreSQL when much is stored: it should be what it costs when little is.

As ``flat``, but what lies in the way is made by the server itself, in the real tables: a million jobs through the store
would take longer than all the rest. The finished ones have their log, too. What is claimed came in through the store.
"""

from __future__ import annotations

import gc
from contextlib import AsyncExitStack

import asyncpg

from bench.cases.flat import HOUR_US, RARE, SHAPES, Shape, Subject, leave
from bench.postgres import Postgres, serving
from bench.run import Run
from bench.subjects import draft, insert, opened_at, prove_once
from dibs.clock import Clock

CASE = "postgres-flat"
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
    sizes = (10_000, run.size(100_000, 30_000), run.size(1_000_000, 100_000))
    async with serving(run) as server:
        for shape in SHAPES:
            await _shape(run, server, shape, sizes)


async def _shape(run: Run, server: Postgres, shape: Shape, sizes: tuple[int, ...]) -> None:
    turns, claims = run.size(11, 7), run.size(50, 30)
    due = (turns + 1) * claims  # one turn to warm up
    title = f"{CASE}, {shape.name}"
    async with AsyncExitStack() as stack:
        subjects: list[Subject] = []
        for backlog in sizes:
            url = await stack.enter_async_context(server.database(migrated=True))
            with run.view.step(f"{title}: fill {backlog:,}", 1):
                await fill(url, shape, backlog, due)
            store = await stack.enter_async_context(opened_at(url))
            subjects.append(Subject(backlog, store, shape.tasks))
        gc.collect()
        with run.view.step(title, due) as step:
            for number in range(due):
                shift = number % len(subjects)
                for subject in subjects[shift:] + subjects[:shift]:
                    await subject.claim()
                step.advance()
        for subject in subjects:
            prove_once(run, subject.claimed, due)
    leave(run, "postgres", shape, subjects, claims)


async def fill(url: str, shape: Shape, backlog: int, due: int) -> None:
    """Put so much in the way, and so many due jobs beside it; then leave it as vacuum would."""
    clock = Clock()
    async with opened_at(url) as store:
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
