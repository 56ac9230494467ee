"""Remove: what goes with a job, what stays of it, and what else is swept up now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.domain.retry import SECOND
from dibs.stores.common.judging import ended
from dibs.stores.common.rows import buried
from dibs.stores.mysql.literals import Json, chunks, step
from dibs.stores.mysql.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.stores.common.judging import Gone
    from dibs.stores.mysql.literals import Step
    from dibs.stores.mysql.turn import Turn

_DAY = 86_400 * SECOND
_ENDS = ("completed", "failed", "cancelled")

_REMOVE = statement("remove_job")
_REMOVE_LOG = statement("remove_log")
_REMOVE_TAG = statement("remove_tag")
_BURY = statement("tombstone_add")
_LANES = statement("prune_lanes")
_FIND = statement("prune_find")
_NOW = statement("clock_read")
_OLD_TOMBSTONES = statement("tombstone_old")
_TOMBSTONES = statement("tombstone_prune")
_OLD_DOCUMENTS = statement("document_old")
_DOCUMENTS = statement("document_prune")
_UNUSED = statement("lane_unused")
_LANE_LOCK = statement("lane_lock")
_LANE_USED = statement("lane_used")
_LANE_REMOVE = statement("lane_remove")


def remove(gone: Sequence[Gone]) -> list[Step]:
    """Say how jobs go with all that belongs to them, and leave each one's last event. Their rows are locked."""
    seqs = Json([each.seq for each in gone])
    tags = sorted({(tag, each.seq) for each in gone for tag in each.job.terms.tags})
    graves = sorted(buried(each.event) for each in gone)
    return [
        step(_REMOVE, seqs),
        step(_REMOVE_LOG, seqs),
        *([step(_REMOVE_TAG, Json(tags))] if tags else []),
        *(step(_BURY, some) for some in chunks(graves)),
    ]


async def prune(turn: Turn, limit: int) -> int:
    """Remove some finished jobs whose time is over; say how many."""
    [(now,)], lanes = await turn.run(step(_NOW, turn.told), step(_LANES))
    over = [
        (lane, status)
        for lane, *firsts in lanes
        for status, first in zip(_ENDS, firsts, strict=True)
        if first is not None and first <= now
    ]
    pruned = 0
    for lane, status in over:
        if pruned == limit:
            break
        async with turn.transaction():
            found = await turn.fetch(_FIND, lane, status, now, limit - pruned)
            gone = [ended((seq, id.decode(), *rest), now) for seq, id, *rest in found]
            if gone:
                await turn.commit(*remove(gone), now=now)
        pruned += len(gone)
    return pruned


async def sweep(turn: Turn, limit: int) -> int:
    """Remove old tombstones and outlived documents, up to so many of each; say how many of the more numerous."""
    [(now,)] = await turn.fetch(_NOW, turn.told)
    async with turn.transaction():
        tombstones, documents = await turn.run(
            step(_OLD_TOMBSTONES, now - _DAY, limit), step(_OLD_DOCUMENTS, now, limit)
        )
        if tombstones or documents:
            await turn.commit(
                step(_TOMBSTONES, Json([id.decode() for (id,) in tombstones])),
                step(_DOCUMENTS, Json([name.decode() for (name,) in documents])),
            )
    return max(len(tombstones), len(documents))


async def remove_lanes(turn: Turn, after: int, limit: int) -> int | None:
    """Remove some unused lanes; say after which one to go on."""
    unused = [id for (id,) in await turn.fetch(_UNUSED, after, limit)]
    if unused:
        async with turn.transaction():
            locked = [id for (id,) in await turn.fetch(_LANE_LOCK, Json(unused))]
            used = {id for (id,) in await turn.fetch(_LANE_USED, Json(locked))}
            await turn.commit(step(_LANE_REMOVE, Json([id for id in locked if id not in used])))
    return unused[-1] if len(unused) == limit else None
