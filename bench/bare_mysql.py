"""The floor: MariaDB through asyncmy with nothing around it, claiming and settling as plainly as it can be done.

One table, one index on what is pending, READ COMMITTED, ``SKIP LOCKED``; one transaction claims and one settles. No
lease, fence or log of events.
"""

from __future__ import annotations

import time
from typing import Any

import asyncmy

from dibs.stores.mysql.address import Address, read

SCHEMA = """
CREATE TABLE job (
  id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, queue varbinary(128) NOT NULL, task varbinary(128) NOT NULL,
  params longblob NOT NULL, priority int NOT NULL, due bigint NOT NULL, status varchar(16) NOT NULL,
  worker varbinary(128), result longblob, KEY job_pending (status, priority DESC, due, id)
) ENGINE = InnoDB
"""
INSERT = "INSERT INTO job (queue, task, params, priority, due, status) VALUES ('default', 'noop', %s, 0, %s, 'pending')"
LOCK = """
SELECT id, task, params FROM job WHERE status = 'pending' AND due <= %s ORDER BY priority DESC, due, id LIMIT %s
FOR UPDATE SKIP LOCKED
"""
CLAIM = "UPDATE job SET status = 'claimed', worker = %s WHERE id IN %s"
SETTLE = "UPDATE job SET status = 'completed', result = NULL WHERE id IN %s AND status = 'claimed' AND worker = %s"


async def drain(url: str, jobs: int, params: bytes, batch: int) -> tuple[float, list[object]]:
    """Claim and settle so many; say how long it took, and which were claimed, in order."""
    connection = await _filled(read(url), jobs, params)
    claimed: list[object] = []
    began = time.perf_counter()
    async with connection.cursor() as cursor:
        while True:
            await cursor.execute(LOCK, (_now(), batch))
            ids = tuple(row[0] for row in await cursor.fetchall())
            if not ids:
                await connection.rollback()
                break
            await cursor.execute(CLAIM, ("bench", ids))
            await connection.commit()
            await cursor.execute(SETTLE, (ids, "bench"))
            await connection.commit()
            claimed += ids
    seconds = time.perf_counter() - began
    await connection.ensure_closed()
    return seconds, claimed


async def _filled(address: Address, jobs: int, params: bytes) -> Any:
    connection = await asyncmy.connect(
        host=address.host,
        port=address.port,
        user=address.user,
        password=address.password,
        database=address.database,
    )
    now = _now()
    async with connection.cursor() as cursor:
        await cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        await cursor.execute(SCHEMA)
        await cursor.executemany(INSERT, [(params, now)] * jobs)
    await connection.commit()
    return connection


def _now() -> int:
    return time.time_ns() // 1000
