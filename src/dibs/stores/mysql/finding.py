"""Find: the one place that composes a statement, and only from the fixed parts below.

What drives the search is the narrowest thing asked for: a batch, a tag, the lanes of what is asked for if only a few
jobs are there, and otherwise the enqueue order, at the price of what it skips. That is dear for ``q``, which reads
every payload on the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.stores.mysql import rows
from dibs.stores.mysql.statements import statement

if TYPE_CHECKING:
    from dibs.domain.job import Job, Query
    from dibs.stores.mysql.turn import Turn

_SORTABLE = 2_000  # jobs that are sorted rather than sought among all others

_READ = statement("job_by_seq")

_ALL = "SELECT job.seq FROM dibs_job AS job FORCE INDEX (PRIMARY) WHERE TRUE"
_BY_BATCH = "SELECT job.seq FROM dibs_job AS job FORCE INDEX (dibs_job_batch) WHERE job.batch_id = %s"
_BY_TAG = (
    "SELECT job.seq FROM dibs_tag AS tag FORCE INDEX (PRIMARY)"
    " STRAIGHT_JOIN dibs_job AS job FORCE INDEX (PRIMARY) ON job.seq = tag.job WHERE tag.tag = %s"
)
_BY_LANE = "SELECT job.seq FROM dibs_job AS job FORCE INDEX (dibs_job_agenda) WHERE TRUE"
_LANES = "SELECT lane.id FROM dibs_lane AS lane WHERE TRUE"
_FEW = "SELECT count(*) FROM ({}) AS few"

_IN_LANE = {
    "queue": " AND lane.queue = %s",
    "task": " AND lane.task = %s",
    "priority_min": " AND lane.priority >= %s",
    "priority_max": " AND lane.priority <= %s",
}
_OF_LANE = " AND job.lane IN %s"
_IN_STATUS = " AND job.status IN %s"
_OF_WORKER = " AND job.worker_id = %s"
_WITH_TAG = " AND EXISTS (SELECT 1 FROM dibs_tag AS tag WHERE tag.tag = %s AND tag.job = job.seq)"
_WITH_TEXT = " AND (LOCATE(%s, job.id) > 0 OR LOCATE(%s, job.params) > 0)"
_BEFORE = " AND job.seq < %s"
_AFTER = " AND job.seq > %s"
_ORDER = {True: " ORDER BY job.seq", False: " ORDER BY job.seq DESC"}
_ORDER_OF_TAG = {True: " ORDER BY tag.job", False: " ORDER BY tag.job DESC"}
_LIMIT = " LIMIT %s"

_Part = tuple[str, tuple[Any, ...]]
_Lanes = tuple[int, ...] | None


async def find(turn: Turn, query: Query) -> tuple[list[Job], int | None]:
    """Read one page, and the cursor of the next."""
    async with turn.snapshot():
        lanes = await _lanes(turn, query)
        sql, bindings = compose(query, lanes, few=lanes is not None and await _is_few(turn, query, lanes))
        seqs = [row[0] for row in await turn.fetch(sql, *bindings)]
        page = seqs[: query.limit]
        found = {row[0]: row for row in await turn.fetch(_READ, tuple(page))}
    return [rows.shown(found[seq]) for seq in page], page[-1] if len(seqs) > query.limit else None


async def _lanes(turn: Turn, query: Query) -> _Lanes:
    """List the lanes that are asked for, if that may narrow the search."""
    if not query.status and not _of_lane(query):
        return None
    sql, bindings = _join([(_LANES, ()), *_of_lane(query)])
    return tuple(id for (id,) in await turn.fetch(sql, *bindings))


async def _is_few(turn: Turn, query: Query, lanes: tuple[int, ...]) -> bool:
    """Say whether the lanes and states that are asked for have only a few jobs."""
    if query.batch_id is not None or query.tag is not None:
        return False
    sql, bindings = _join([(_BY_LANE, ()), (_OF_LANE, (lanes,)), *_in_status(query), (_LIMIT, (_SORTABLE + 1,))])
    [(number,)] = await turn.fetch(_FEW.format(sql), *bindings)
    return bool(number <= _SORTABLE)


def compose(query: Query, lanes: _Lanes, *, few: bool) -> tuple[str, list[Any]]:
    """Put the parts together: which index to walk, what to leave out, in which order."""
    order = _ORDER[query.oldest_first]
    parts: list[_Part] = []
    if query.batch_id is not None:
        parts.append((_BY_BATCH, (query.batch_id.encode(),)))
    elif query.tag is not None:
        parts.append((_BY_TAG, (query.tag.encode(),)))
        order = _ORDER_OF_TAG[query.oldest_first]
    else:
        parts.append((_BY_LANE if few else _ALL, ()))
    if lanes is not None and (few or _of_lane(query)):
        parts.append((_OF_LANE, (lanes,)))
    parts += _in_status(query)
    if query.worker_id is not None:
        parts.append((_OF_WORKER, (query.worker_id.encode(),)))
    if query.tag is not None and query.batch_id is not None:
        parts.append((_WITH_TAG, (query.tag.encode(),)))
    if query.q is not None:
        parts.append((_WITH_TEXT, (query.q.encode(), query.q.encode())))
    if query.cursor is not None:
        parts.append((_AFTER if query.oldest_first else _BEFORE, (query.cursor,)))
    return _join([*parts, (order, ()), (_LIMIT, (query.limit + 1,))])


def _of_lane(query: Query) -> list[_Part]:
    wanted = ((part, getattr(query, name)) for name, part in _IN_LANE.items())
    return [
        (part, (value.encode() if isinstance(value, str) else value,)) for part, value in wanted if value is not None
    ]


def _in_status(query: Query) -> list[_Part]:
    return [(_IN_STATUS, (tuple(status.value for status in query.status),))] if query.status else []


def _join(parts: list[_Part]) -> tuple[str, list[Any]]:
    return "".join(part for part, _ in parts), [value for _, values in parts for value in values]
