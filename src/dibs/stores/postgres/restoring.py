"""Restore: whole jobs with their logs, as another store has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.stores.common import restoring, rows
from dibs.stores.common.judging import logged
from dibs.stores.common.naming import LaneKey, Overtaken
from dibs.stores.postgres.statements import statement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dibs.domain.job import Job
    from dibs.stores.common.restoring import Whole
    from dibs.stores.postgres.turn import Turn

_NAMED = statement("insert_named")
_RESTORE = statement("restore")
_TAG = statement("insert_tag")
_LOG = statement("write_log")
_CLOCK = statement("write_clock")


async def restore(turn: Turn, items: Sequence[Whole], lanes: Mapping[LaneKey, int]) -> list[Job | None]:
    """Put down what is new; answer the rest with the jobs that have its names. ``Overtaken``: try again."""
    async with turn.transaction():
        found = await turn.fetch(_NAMED, *restoring.names(items))
        new, answers = restoring.sift(items, ((by, rows.shown(row)) for by, *row in found))
        if new:
            await _write(turn, new, lanes)
    restoring.announce(turn, new, lanes)
    return answers


async def _write(turn: Turn, new: Sequence[Whole], lanes: Mapping[LaneKey, int]) -> None:
    if not {item.lane for item in new} <= lanes.keys():
        raise Overtaken  # one was removed as soon as it was made
    used = list({lanes[item.lane] for item in new})
    table = restoring.columns(new, lanes)
    seqs = {id: seq for seq, id in await turn.fetch(_RESTORE, used, *rows.columns(table, 29))}
    if len(seqs) < len(new):
        raise Overtaken
    if events := [logged(event, seqs[item.job.id]) for item in new for event in item.events[1:]]:
        await turn.fetch(_LOG, *rows.columns(events, 13))
    if tags := [(item.job.id, tag) for item in new for tag in item.job.tags]:
        await turn.fetch(_TAG, *rows.columns(tags, 2))
    await turn.fetch(_CLOCK, restoring.latest(new))
