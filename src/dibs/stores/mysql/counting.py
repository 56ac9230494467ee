"""Counts, lane by lane: a derived table cannot look at another's rows on both servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.store import PAUSED
from dibs.stores.common import counting
from dibs.stores.mysql import registry
from dibs.stores.mysql.literals import step
from dibs.stores.mysql.statements import statement
from dibs.stores.mysql.turn import Turn

if TYPE_CHECKING:
    from dibs.domain.job import QueueInfo

_NOW = statement("clock_read")
_LANES = statement("count_lanes")
_COUNT = statement("count")

_ALL = 2**63 - 1
_TOGETHER = 100  # lanes in one packet


class Counter(counting.Counter[Turn]):
    """Counts for one process."""

    async def lanes(self, turn: Turn, queue: str | None, upto: int | None) -> list[counting.Lane]:
        [(now,)], lanes = await turn.run(
            step(_NOW, turn.told), step(_LANES, queue is None, None if queue is None else queue.encode())
        )
        most = _ALL if upto is None else upto
        counted: list[counting.Lane] = []
        for start in range(0, len(lanes), _TOGETHER):
            some = lanes[start : start + _TOGETHER]
            due = (now, most)
            found = await turn.run(*(step(_COUNT, id, *due, id, *due, *(id, most) * 4, id, now) for id, _ in some))
            counted += [(name.decode(), *row) for (_, name), [row] in zip(some, found, strict=True)]
        return counted

    async def queues(self, turn: Turn) -> list[QueueInfo]:
        """Describe every queue that has jobs or is paused."""
        async with turn.snapshot():
            paused = {document.name.removeprefix(PAUSED) for document in await registry.documents(turn, PAUSED)}
            return await self.described(turn, paused)
