"""The SQLite store: the protocol, each method a transaction of the engine."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from dibs.domain.errors import InvalidRequest, Problem
from dibs.store import Capabilities, alone
from dibs.stores.sqlite import claiming, examining, finding, inserting, reading, registry, removing, restoring, writing
from dibs.stores.sqlite.connection import check_library
from dibs.stores.sqlite.counting import Counter
from dibs.stores.sqlite.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.clock import Clock
    from dibs.domain.finding import Finding
    from dibs.domain.job import (
        ClaimRequest,
        Counts,
        Document,
        Draft,
        Event,
        Extension,
        Job,
        Outcome,
        Query,
        QueueInfo,
    )
    from dibs.domain.transitions import Write
    from dibs.store import Audit, Refusal, Rivals, Written

_STEP = 100  # things of a kind removed in one transaction, so that a claim never waits for more

_PREFIX = "sqlite:///"


def from_url(url: str, clock: Clock) -> SqliteStore:
    """Make a store of ``sqlite:///relative.db`` or ``sqlite:////absolute.db``."""
    path = unquote(url.removeprefix(_PREFIX))
    if not url.startswith(_PREFIX) or path in {"", ":memory:"} or "?" in url or "\0" in path:
        raise InvalidRequest(
            [Problem("url", f"{url!r} names no file: write sqlite:///jobs.db or sqlite:////tmp/jobs.db")]
        )
    return SqliteStore(path, clock)


def _steps(seqs: list[int]) -> list[list[int]]:
    return [seqs[start : start + _STEP] for start in range(0, len(seqs), _STEP)]


class SqliteStore:
    """Jobs in one SQLite file, durable when acknowledged, shared by any processes of one machine."""

    capabilities = Capabilities(durable=True, shared=True, transactions=True, migrates=True)

    def __init__(self, path: str | os.PathLike[str], clock: Clock) -> None:
        check_library()
        if os.fspath(path) in {"", ":memory:"}:
            raise InvalidRequest([Problem("path", "must name a file; for jobs in memory there is the memory store")])
        # Absolute from the start: a program that changes its folder goes on using the same file.
        self.path = str(Path(path).absolute())
        self._clock = clock
        self._engine = Engine(self.path, clock)
        self._counter = Counter(clock)

    async def open(self) -> None:
        await self._engine.open()

    async def close(self) -> None:
        await self._engine.close()

    async def now(self) -> int:
        return await self._engine.read(lambda moment: moment.now)

    async def insert(self, groups: Sequence[Sequence[Draft]], *, connection: Any = None) -> list[list[Job] | Refusal]:
        if connection is not None:
            return self._engine.run_on(connection, lambda moment: inserting.insert(moment, groups))
        return await self._engine.write(lambda moment: inserting.insert(moment, groups))

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[list[Job]]:
        return await self._engine.write(lambda moment: claiming.claim(moment, requests))

    async def extend(self, extensions: Sequence[Extension]) -> list[Outcome]:
        return await self._engine.write(lambda moment: writing.extend(moment, extensions))

    async def write(self, writes: Sequence[Write], *, connection: Any = None) -> list[Written]:
        if connection is not None:
            return self._engine.run_on(connection, lambda moment: writing.write(moment, writes))
        return await self._engine.write(lambda moment: writing.write(moment, writes))

    async def restore(self, items: Sequence[tuple[Job, Sequence[Event]]]) -> list[Job | None]:
        return await self._engine.write(lambda moment: restoring.restore(moment, items))

    async def expired(self, limit: int) -> list[Job]:
        return await self._engine.read(lambda moment: reading.expired(moment, limit))

    async def prune(self, limit: int) -> int:
        """Remove in small steps, each a transaction of its own."""
        pruned = 0
        found = await self._engine.scan(lambda moment: reading.prunable(moment, limit))
        for step in _steps(found):
            pruned += await self._engine.write(lambda moment, step=step: removing.prune(moment, step))  # type: ignore[misc]
        while await self._engine.write(lambda moment: removing.sweep(moment, _STEP)) == _STEP:
            pass  # all that is old goes, however much jobs that are not kept have left since the last time
        lanes = await self._engine.scan(reading.unused_lanes)
        for step in _steps(lanes):
            await self._engine.write(lambda moment, step=step: removing.remove_lanes(moment, step))  # type: ignore[misc]
        return pruned

    async def wait(self, request: ClaimRequest, timeout: float, _rivals: Rivals = alone, /) -> None:
        """Return soon after a job has come: at once from this process, within some milliseconds from another."""
        await self._engine.wait(request, timeout)

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        return await self._engine.read(lambda moment: reading.get(moment, ids))

    async def find(self, query: Query) -> tuple[list[Job], int | None]:
        return await self._engine.scan(lambda moment: finding.find(moment, query))

    async def log(self, id: str) -> list[Event]:
        return await self._engine.read(lambda moment: reading.log(moment, id))

    async def audit(self, cursor: str | None, limit: int) -> Audit:
        return await self._engine.scan(lambda moment: reading.audit(moment, cursor, limit))

    async def counts(self, queue: str | None = None) -> Counts:
        return await self._engine.scan(lambda moment: self._counter.counts(moment, queue))

    async def queues(self) -> list[QueueInfo]:
        return await self._engine.scan(self._counter.queues)

    async def read(self, name: str) -> Document | None:
        return await self._engine.read(lambda moment: registry.read(moment, name))

    async def documents(self, prefix: str) -> list[Document]:
        return await self._engine.read(lambda moment: registry.documents(moment, prefix))

    async def put(
        self, name: str, value: bytes | None, *, expect: int | None = None, keep_us: int | None = None
    ) -> Document | None:
        return await self._engine.write(lambda moment: registry.put(moment, name, value, expect, keep_us))

    async def migrate(self, *, dry_run: bool = False) -> list[str]:
        return await self._engine.migrate(dry_run=dry_run)

    async def examine(self) -> list[Finding]:
        return await asyncio.to_thread(examining.examine, self.path, self._clock)
