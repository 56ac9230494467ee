"""The floor on PostgreSQL: asyncpg with nothing around it, claiming and settling as plainly as it can be done.

One table, a partial index on what is pending; one statement claims and one settles, each a transaction of its own. No
lease, fence or log of events.
"""

from __future__ import annotations

import time

import asyncpg

SCHEMA = """
CREATE TABLE job (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, queue text NOT NULL, task text NOT NULL, params bytea NOT NULL,
  priority integer NOT NULL, due bigint NOT NULL, status text NOT NULL, worker text, result bytea
);
CREATE INDEX job_pending ON job (priority DESC, due, id) WHERE status = 'pending';
"""
FILL = """
INSERT INTO job (queue, task, params, priority, due, status)
SELECT 'default', 'noop', $1, 0, n, 'pending' FROM generate_series(1, $2::integer) AS n
"""
CLAIM = """
UPDATE job SET status = 'claimed', worker = $1 WHERE id = ANY (ARRAY(
  SELECT id FROM job WHERE status = 'pending' AND due <= $2 ORDER BY priority DESC, due, id LIMIT $3
  FOR UPDATE SKIP LOCKED))
RETURNING id, task, params
"""
SETTLE = """
UPDATE job SET status = 'completed', result = NULL WHERE id = ANY ($1::bigint[]) AND status = 'claimed' AND worker = $2
"""


async def drain(url: str, jobs: int, params: bytes, batch: int) -> tuple[float, list[object]]:
    """Claim and settle so many; say how long it took, and which were claimed, in order."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(SCHEMA)
        await connection.execute(FILL, params, jobs)
        claimed: list[object] = []
        began = time.perf_counter()
        while rows := await connection.fetch(CLAIM, "bench", jobs, batch):
            await connection.execute(SETTLE, [row[0] for row in rows], "bench")
            claimed += [row[0] for row in rows]
        return time.perf_counter() - began, claimed
    finally:
        await connection.close()
