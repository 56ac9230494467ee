"""Memory stores with a fault or a record: real ones, that do what they do a little differently."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from dibs.domain.errors import StoreUnavailable
from dibs.domain.job import Job, Outcome
from dibs.store import Refusal, Written
from dibs.stores.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.clock import Clock
    from dibs.domain.job import ClaimRequest, Draft, Extension
    from dibs.domain.transitions import Write

T = TypeVar("T")


class RecordingStore(MemoryStore):
    """Remembers how many items came with each call."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.calls: list[tuple[str, int]] = []

    async def insert(self, groups: Sequence[Sequence[Draft]], *, connection: Any = None) -> list[list[Job] | Refusal]:
        self.calls.append(("insert", len(groups)))
        return await super().insert(groups, connection=connection)

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[list[Job]]:
        self.calls.append(("claim", len(requests)))
        return await super().claim(requests)

    async def extend(self, extensions: Sequence[Extension]) -> list[Outcome]:
        self.calls.append(("extend", len(extensions)))
        return await super().extend(extensions)

    async def write(self, writes: Sequence[Write], *, connection: Any = None) -> list[Written]:
        self.calls.append(("write", len(writes)))
        return await super().write(writes, connection=connection)


class SlowStore(MemoryStore):
    """Does at once what it is told, but keeps its answers until the gate is opened: as over a long line."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.gate = asyncio.Event()
        self.begun = asyncio.Event()

    async def insert(self, groups: Sequence[Sequence[Draft]], *, connection: Any = None) -> list[list[Job] | Refusal]:
        return await self._later(await super().insert(groups, connection=connection))

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[list[Job]]:
        return await self._later(await super().claim(requests))

    async def _later(self, answer: T) -> T:
        self.begun.set()
        await self.gate.wait()
        return answer


class BusyStore(MemoryStore):
    """Answers so many writes with busy, as one whose rows another transaction holds."""

    def __init__(self, clock: Clock, busy: int) -> None:
        super().__init__(clock)
        self.busy = busy
        self.writes: list[int] = []

    async def write(self, writes: Sequence[Write], *, connection: Any = None) -> list[Written]:
        self.writes.append(len(writes))
        number = min(self.busy, len(writes))
        self.busy -= number
        jobs = await self.get([write.id for write in writes[:number]])
        return [
            *[Written(Outcome.BUSY, job.status if job else None) for job in jobs],
            *await super().write(writes[number:], connection=connection),
        ]


class FlakyStore(MemoryStore):
    """Cannot be reached while it is down."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.down = False
        self.refused = 0

    def _reach(self) -> None:
        if self.down:
            self.refused += 1
            raise StoreUnavailable

    async def write(self, writes: Sequence[Write], *, connection: Any = None) -> list[Written]:
        self._reach()
        return await super().write(writes, connection=connection)

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[list[Job]]:
        self._reach()
        return await super().claim(requests)

    async def expired(self, limit: int) -> list[Job]:
        self._reach()
        return await super().expired(limit)

    async def prune(self, limit: int) -> int:
        self._reach()
        return await super().prune(limit)
