"""Counts, of all lanes in one statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.stores.common import counting
from dibs.stores.postgres.statements import statement
from dibs.stores.postgres.turn import Turn

if TYPE_CHECKING:
    from dibs.domain.job import QueueInfo

_COUNT = statement("count")
_PAUSED = statement("document_paused")


class Counter(counting.Counter[Turn]):
    """Counts for one process."""

    async def lanes(self, turn: Turn, queue: str | None, upto: int | None) -> list[counting.Lane]:
        return await turn.fetch(_COUNT, turn.told, queue, upto)

    async def queues(self, turn: Turn) -> list[QueueInfo]:
        """Describe every queue that has jobs or is paused."""
        async with turn.snapshot():
            paused = {row[0] for row in await turn.fetch(_PAUSED, turn.told)}
            return await self.described(turn, paused)
