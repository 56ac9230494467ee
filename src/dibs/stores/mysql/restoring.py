"""Restore: whole jobs with their logs, as another store has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.stores.common import restoring
from dibs.stores.common.judging import logged
from dibs.stores.common.naming import LaneKey, Overtaken
from dibs.stores.mysql import rows
from dibs.stores.mysql.literals import Json, chunks, step
from dibs.stores.mysql.statements import statement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dibs.domain.job import Job
    from dibs.stores.common.restoring import Whole
    from dibs.stores.mysql.turn import Turn

_NAMED = statement("insert_named")
_SHARE = statement("lane_share")
_RESTORE = statement("restore")
_PLACE = statement("restore_place")
_TAG = statement("insert_tag")
_LOG = statement("write_log")


async def restore(turn: Turn, items: Sequence[Whole], lanes: Mapping[LaneKey, int]) -> list[Job | None]:
    """Put down what is new; answer the rest with the jobs that have its names. ``Overtaken``: try again."""
    names = [tuple(name.encode() for name in kind) for kind in restoring.names(items)]
    used = sorted({lanes[item.lane] for item in items if item.lane in lanes})
    async with turn.transaction():
        found, shared = await turn.run(step(_NAMED, *names), step(_SHARE, Json(used)))
        new, answers = restoring.sift(items, ((by, rows.shown(row)) for by, *row in found))
        if not all(lanes.get(item.lane) in {id for (id,) in shared} for item in new):
            raise Overtaken  # one was removed as soon as it was made
        if new:
            await _write(turn, new, lanes)
    restoring.announce(turn, new, lanes)
    return answers


async def _write(turn: Turn, new: Sequence[Whole], lanes: Mapping[LaneKey, int]) -> None:
    added = [step(_RESTORE, some) for some in chunks(restoring.columns(new, lanes))]
    *_, placed = await turn.run(*added, step(_PLACE, tuple(item.job.id.encode() for item in new)))
    seqs = {id.decode(): seq for id, seq in placed}
    events = [logged(event, seqs[item.job.id]) for item in new for event in item.events[1:]]
    tags = sorted({(item.job.id, tag) for item in new for tag in item.job.tags})
    await turn.commit(
        *(step(_LOG, some) for some in chunks(events)),
        *([step(_TAG, Json(tags))] if tags else []),
        now=restoring.latest(new),
    )
