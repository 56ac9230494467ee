"""The floor: SQLite through apsw with nothing around it, claiming and settling as plainly as it can be done.

One table, a partial index on what is pending, a write-ahead log, ``synchronous=FULL``; one statement claims and one
settles, each in a transaction of its own. No lease, fence or log of events, no thread, no event loop.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import apsw

PAGE = 4096
SCHEMA = """
CREATE TABLE job (
  id INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL, task TEXT NOT NULL, params BLOB NOT NULL,
  priority INTEGER NOT NULL, due INTEGER NOT NULL, status TEXT NOT NULL, worker TEXT, result BLOB
) STRICT;
CREATE INDEX job_pending ON job (priority DESC, due, id) WHERE status = 'pending';
"""
INSERT = "INSERT INTO job (queue, task, params, priority, due, status) VALUES ('default', 'noop', ?, 0, ?, 'pending')"
CLAIM = """
UPDATE job SET status = 'claimed', worker = ?1
WHERE id IN (SELECT id FROM job WHERE status = 'pending' AND due <= ?2 ORDER BY priority DESC, due, id LIMIT ?3)
RETURNING id, task, params
"""
SETTLE = "UPDATE job SET status = 'completed', result = NULL WHERE id = ? AND status = 'claimed' AND worker = ?"


class Bare:
    """A file with so many pending jobs."""

    def __init__(self, path: Path, jobs: int, params: bytes) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.pragma("journal_mode", "WAL")
        self._connection.pragma("synchronous", "FULL")
        self._connection.execute(SCHEMA)
        now = _now()
        with self._connection:
            self._connection.executemany(INSERT, ((params, now) for _ in range(jobs)))
        self._connection.wal_checkpoint()

    def drain(self, batch: int) -> tuple[float, list[object]]:
        """Claim and settle all of them; say how long it took, and which jobs were claimed, in order."""
        execute, executemany = self._connection.execute, self._connection.executemany
        claimed: list[object] = []
        began = time.perf_counter()
        while True:
            execute("BEGIN IMMEDIATE")
            rows = execute(CLAIM, ("bench", _now(), batch)).fetchall()
            execute("COMMIT")
            if not rows:
                return time.perf_counter() - began, claimed
            execute("BEGIN IMMEDIATE")
            executemany(SETTLE, [(row[0], "bench") for row in rows])
            execute("COMMIT")
            claimed += [row[0] for row in rows]

    def close(self) -> None:
        self._connection.close()


def syncs(path: Path, number: int) -> float:
    """Write a page and have the disk confirm it, so many times; say how many it does in a second."""
    file = os.open(path, os.O_CREAT | os.O_RDWR)
    try:
        os.write(file, bytes(PAGE * 16))
        os.fsync(file)
        began = time.perf_counter()
        for n in range(number):
            os.pwrite(file, bytes(PAGE), PAGE * (n % 16))
            os.fsync(file)
        return number / (time.perf_counter() - began)
    finally:
        os.close(file)


def _now() -> int:
    return time.time_ns() // 1000
