"""Remove: what goes with a job, what stays of it, and what else is swept up now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.domain.retry import SECOND
from dibs.stores.common import rows
from dibs.stores.common.judging import Gone, ended
from dibs.stores.postgres.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.stores.postgres.turn import Turn

_DAY = 86_400 * SECOND

_REMOVE = statement("remove_job")
_BURY = statement("tombstone_add")
_FIND = statement("prune_find")
_NOW = statement("clock_read")
_CLOCK = statement("write_clock")
_TOMBSTONES = statement("tombstone_prune")
_DOCUMENTS = statement("document_prune")
_LANE_LOCK = statement("lane_lock")
_LANE_REMOVE = statement("lane_remove")


async def remove(turn: Turn, gone: Sequence[Gone]) -> None:
    """Remove jobs with all that belongs to them, and leave each one's last event. Their rows are locked."""
    tags = [(tag, each.seq) for each in gone for tag in each.job.terms.tags]
    await turn.fetch(_REMOVE, [each.seq for each in gone], *rows.columns(tags, 2))
    await turn.fetch(_BURY, *rows.columns([rows.buried(each.event) for each in gone], 9))


async def prune(turn: Turn, limit: int) -> int:
    """Remove some finished jobs whose time is over; say how many."""
    async with turn.transaction():
        [(now,)] = await turn.fetch(_NOW, turn.told)
        gone = [ended(row, now) for row in await turn.fetch(_FIND, now, limit)]
        if gone:
            await remove(turn, gone)
            await turn.fetch(_CLOCK, now)
    return len(gone)


async def sweep(turn: Turn, limit: int) -> int:
    """Remove old tombstones and outlived documents, up to so many of each; say how many of the more numerous."""
    [(now,)] = await turn.fetch(_NOW, turn.told)
    [(tombstones,)] = await turn.fetch(_TOMBSTONES, now - _DAY, limit)
    [(documents,)] = await turn.fetch(_DOCUMENTS, now, limit)
    return int(max(tombstones, documents))


async def remove_lanes(turn: Turn, after: int, limit: int) -> int | None:
    """Remove some unused lanes; say after which one to go on."""
    async with turn.transaction():
        ids = [row[0] for row in await turn.fetch(_LANE_LOCK, after, limit)]
        if ids:
            await turn.fetch(_LANE_REMOVE, ids)
    return ids[-1] if len(ids) == limit else None
