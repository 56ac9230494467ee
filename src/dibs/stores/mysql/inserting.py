"""Insert: each group whole or not at all; all groups in one transaction, if nothing in them is known already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.store import Refusal
from dibs.stores.common.naming import Identified, LaneKey, Lanes, Named, Overtaken, keys
from dibs.stores.common.rows import TermsWriter
from dibs.stores.mysql import rows
from dibs.stores.mysql.literals import Json, Rows, chunks, step
from dibs.stores.mysql.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dibs.domain.job import Draft, Job
    from dibs.stores.mysql.literals import Step
    from dibs.stores.mysql.turn import Turn

_NOW = statement("clock_read")
_INSERT = statement("insert")
_LATER = statement("insert_later")
_TAG = statement("insert_tag")
_NAMED = statement("insert_named")
_KEYS = statement("write_keys")
_SHARE = statement("lane_share")
_LANE_FIND = statement("lane_find")
_LANE_ADD = statement("lane_add")

Found = list[tuple[str, "Job"]]
"""What a job was found by (id, key or unique), and the job."""


async def add_lanes(turn: Turn, wanted: set[LaneKey]) -> Lanes:
    """Find or make lanes. Never in a user's transaction: others would wait for it."""
    names = sorted(wanted)
    found = await turn.fetch(_LANE_FIND, Json(names))
    if len(found) < len(wanted):
        new = Rows((queue.encode(), task.encode(), priority) for queue, task, priority in names)
        async with turn.transaction():
            _, found = await turn.commit(step(_LANE_ADD, new), step(_LANE_FIND, Json(names)))
    return {(queue.decode(), task.decode(), priority): id for id, queue, task, priority in found}


async def insert_plain(turn: Turn, groups: Sequence[Sequence[Draft]], lanes: Mapping[LaneKey, int]) -> list[list[Job]]:
    """Insert all groups at once, without waiting, if every draft is new; if not, it fails, and nothing was written."""
    drafts = [draft for group in groups for draft in group]
    async with turn.transaction():
        *taken, shared, [(now,)] = await turn.run(*_taken(drafts), _share(drafts, lanes), step(_NOW, turn.told))
        if any(taken):
            raise Overtaken
        now = await _put(turn, drafts, _insert(drafts, lanes, shared, now), 0, now)
    turn.news |= {(draft.queue, draft.task) for draft in drafts}
    return [[draft.job(now) for draft in group] for group in groups]


async def insert_group(
    turn: Turn,
    group: Sequence[Draft],
    lanes: Mapping[LaneKey, int],
    patience: int,
    known: Iterable[tuple[str, Job]] = (),
) -> list[Job] | Refusal:
    """Insert one group, or say why not; ``Overtaken`` if it is to be tried again.

    ``known``: jobs that were found on another connection, as a user's transaction may not see them.
    """
    async with turn.transaction():
        # Race: a unique key that becomes free. The time is told last: what begins is later than what has ended
        # (test_a_job_is_later_than_the_end_that_set_its_key_free).
        found, shared, [(now,)] = await turn.run(_named(group), _share(group, lanes), step(_NOW, turn.told))
        named = Named([*known, *_read(found)])
        identified = Identified(group, named)
        if identified.mismatch is not None:
            return identified.refusal(now)
        if identified.new:
            drafts = list(identified.new.values())
            now = await _put(turn, drafts, _insert(drafts, lanes, shared, now), patience, now)
            turn.news |= {(draft.queue, draft.task) for draft in drafts}
    return identified.jobs(now)


async def _put(turn: Turn, drafts: Sequence[Draft], steps: Sequence[Step], patience: int, now: int) -> int:
    """Insert new jobs; say when."""
    if not turn.sees_the_present or all(draft.unique_key is None for draft in drafts):
        await turn.commit(*turn.patiently(patience, steps), now=now)
        return now
    # Race: a job with the key that came and ended since the time was told. Once the key is theirs it is told again
    # (test_a_job_is_later_than_a_life_that_no_one_saw).
    *_, [(later,)] = await turn.run(*turn.patiently(patience, steps), step(_NOW, turn.told))
    moved = [step(_LATER, Json([(draft.id, draft.due(later)) for draft in drafts]), later, later)]
    await turn.commit(*(moved if later > now else []), now=later)
    return int(later)


async def find_named(turn: Turn, group: Sequence[Draft]) -> Found:
    """Read the jobs that a group's drafts may name."""
    [found] = await turn.run(_named(group))
    return _read(found)


def _named(group: Sequence[Draft]) -> Step:
    return step(
        _NAMED,
        tuple(draft.id.encode() for draft in group),
        tuple(draft.idempotency_key.encode() for draft in group if draft.idempotency_key is not None),
        tuple(draft.unique_key.encode() for draft in group if draft.unique_key is not None),
    )


def _taken(drafts: Iterable[Draft]) -> list[Step]:
    """Say how to find who has the unique keys, if there are any. Race: as above, where nothing else is looked up."""
    names = tuple(draft.unique_key.encode() for draft in drafts if draft.unique_key is not None)
    return [step(_KEYS, names)] if names else []


def _read(found: Iterable[Any]) -> Found:
    return [(by, rows.shown(row)) for by, *row in found]


def _share(drafts: Iterable[Draft], lanes: Mapping[LaneKey, int]) -> Step:
    return step(_SHARE, Json(sorted({lanes[key] for key in keys(drafts) if key in lanes})))


def _insert(drafts: Sequence[Draft], lanes: Mapping[LaneKey, int], shared: list[Any], now: int) -> list[Step]:
    """Say how new jobs are inserted, if their lanes are still there."""
    there = {id for (id,) in shared}
    if not all(lanes.get(key) in there for key in keys(drafts)):
        raise Overtaken  # one was removed as soon as it was made
    terms = TermsWriter()
    table: list[tuple[Any, ...]] = []
    for draft in drafts:
        lane, due = lanes[draft.queue, draft.task, draft.priority], draft.due(now)
        table.append(
            (
                lane, draft.id, due, due, now, now, draft.max_attempts, draft.terms.lease_us, draft.keep.completed,
                draft.idempotency_key, draft.unique_key, draft.batch_id, terms.encode(draft.terms, draft.keep),
                draft.params_json,
            )
        )  # fmt: skip
    tags = sorted({(draft.id, tag) for draft in drafts for tag in draft.terms.tags})
    return [
        *(step(_INSERT, some) for some in chunks(table)),
        *([step(_TAG, Json(tags))] if tags else []),
    ]
