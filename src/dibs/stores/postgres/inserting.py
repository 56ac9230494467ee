"""Insert: each group whole or not at all; all groups in one statement, if nothing in them is known already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.store import Refusal
from dibs.stores.common import rows
from dibs.stores.common.naming import Identified, LaneKey, Lanes, Named, Overtaken, keys
from dibs.stores.postgres.statements import statement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dibs.domain.job import Draft, Job
    from dibs.stores.postgres.turn import Turn

_INSERT = statement("insert")
_TAG = statement("insert_tag")
_NAMED = statement("insert_named")
_NOW = statement("clock_read")
_LANE_FIND = statement("lane_find")
_LANE_ADD = statement("lane_add")

SHORT = "100ms"
"""How long those wait together who were merged: as long as a transaction of dibs itself may take."""


async def add_lanes(turn: Turn, wanted: set[LaneKey]) -> Lanes:
    """Find or make lanes. Never in a user's transaction: others would wait for it."""
    given = list(rows.columns(sorted(wanted), 3))
    found = await turn.fetch(_LANE_FIND, *given)
    if len(found) < len(wanted):
        await turn.fetch(_LANE_ADD, *given)
        found = await turn.fetch(_LANE_FIND, *given)
    return {(queue, task, priority): id for id, queue, task, priority in found}


async def insert_plain(turn: Turn, groups: Sequence[Sequence[Draft]], lanes: Mapping[LaneKey, int]) -> list[list[Job]]:
    """Insert all groups at once, if every draft is new; ``Overtaken`` if not, and nothing was written."""
    now = await _insert(turn, [draft for group in groups for draft in group], lanes, SHORT)
    return [[draft.job(now) for draft in group] for group in groups]


async def insert_group(
    turn: Turn, group: Sequence[Draft], lanes: Mapping[LaneKey, int], patience: str
) -> list[Job] | Refusal:
    """Insert one group, or say why not; ``Overtaken`` if it is to be tried again."""
    async with turn.transaction():
        named = await _named(turn, group)
        found = Identified(group, named)
        if found.mismatch is not None:
            [(now,)] = await turn.fetch(_NOW, turn.told)
            return found.refusal(now)
        new = found.new
        now = await _insert(turn, list(new.values()), lanes, patience) if new else 0
        tags = [(draft.id, tag) for draft in new.values() for tag in draft.terms.tags]
        if tags:
            await turn.fetch(_TAG, *rows.columns(tags, 2))
    return found.jobs(now)


async def _insert(turn: Turn, drafts: Sequence[Draft], lanes: Mapping[LaneKey, int], patience: str) -> int:
    """Insert new jobs; say when."""
    if not keys(drafts) <= lanes.keys():
        raise Overtaken  # one was removed as soon as it was made
    terms = rows.TermsWriter()
    table: list[tuple[Any, ...]] = [
        (
            lanes[draft.queue, draft.task, draft.priority], draft.id, draft.delay_us, draft.scheduled_us,
            draft.max_attempts, draft.terms.lease_us, draft.keep.completed, draft.idempotency_key, draft.unique_key,
            draft.batch_id, terms.encode(draft.terms, draft.keep), draft.params_json,
        )
        for draft in drafts
    ]  # fmt: skip
    [(now, _, number, _)] = await turn.fetch(
        _INSERT, turn.told, patience, list({row[0] for row in table}), *rows.columns(table, 12)
    )
    if number < len(drafts):
        raise Overtaken
    turn.news |= {(draft.queue, draft.task) for draft in drafts}
    at: int = now
    return at


async def _named(turn: Turn, group: Sequence[Draft]) -> Named:
    found = await turn.fetch(
        _NAMED,
        [draft.id for draft in group],
        [draft.idempotency_key for draft in group if draft.idempotency_key is not None],
        [draft.unique_key for draft in group if draft.unique_key is not None],
    )
    return Named((by, rows.shown(row)) for by, *row in found)
