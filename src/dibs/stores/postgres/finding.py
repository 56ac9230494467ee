"""Find: the one place that composes a statement, and only from the fixed parts below.

What drives the search is the narrowest thing asked for: a batch, a tag, the dead letter, what is held, what waits if
that is little, and otherwise the enqueue order, at the price of what it skips. That is dear for a queue that is rare
among millions, and for ``q``, which reads every payload on the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.domain.job import Query, Status
from dibs.stores.common import rows
from dibs.stores.postgres.statements import statement

if TYPE_CHECKING:
    from dibs.domain.job import Job
    from dibs.stores.postgres.turn import Turn

_SORTABLE = 2_000  # pending jobs that are sorted rather than sought among all others

_READ = statement("job_by_seq")
_COUNT_PENDING = statement("find_pending_few")

_ALL = "SELECT job.seq FROM dibs_job AS job WHERE true"
_BY_TAG = "SELECT job.seq FROM dibs_tag AS tag JOIN dibs_job AS job ON job.seq = tag.job WHERE tag.tag = {}"
_BY_FAILURE = "SELECT job.seq FROM dibs_job AS job WHERE job.status = 'failed'"
# Sorted by an expression: the planner would otherwise rather walk all jobs in their order to find these few.
_BY_LEASE = "SELECT job.seq FROM dibs_job AS job WHERE job.status = 'claimed'"
_BY_LANE = "SELECT job.seq FROM dibs_job AS job WHERE job.status = 'pending'"

# A list, or the order would be that of all jobs to the planner too, and it might walk those (ADR 8).
_OF_BATCH = " AND job.batch_id = ANY (ARRAY[{}::text])"
_IN_QUEUE = " AND EXISTS (SELECT FROM dibs_lane AS lane WHERE lane.id = job.lane AND lane.queue = {})"
_OF_TASK = " AND EXISTS (SELECT FROM dibs_lane AS lane WHERE lane.id = job.lane AND lane.task = {})"
_AT_LEAST = " AND EXISTS (SELECT FROM dibs_lane AS lane WHERE lane.id = job.lane AND lane.priority >= {})"
_AT_MOST = " AND EXISTS (SELECT FROM dibs_lane AS lane WHERE lane.id = job.lane AND lane.priority <= {})"
_IN_STATUS = " AND job.status = ANY ({}::text[])"
_OF_WORKER = " AND job.worker_id = {}"
_WITH_TAG = " AND EXISTS (SELECT FROM dibs_tag AS tag WHERE tag.tag = {} AND tag.job = job.seq)"
_WITH_TEXT = " AND (strpos(job.id, {0}::text) > 0 OR position(convert_to({0}::text, 'UTF8') IN job.params) > 0)"
_BEFORE = " AND job.seq < {}"
_AFTER = " AND job.seq > {}"
_WALKED = {True: " ORDER BY job.seq", False: " ORDER BY job.seq DESC"}
_WALKED_BY_BATCH = {True: " ORDER BY job.batch_id, job.seq", False: " ORDER BY job.batch_id DESC, job.seq DESC"}
_SORTED = {True: " ORDER BY job.seq + 0", False: " ORDER BY job.seq + 0 DESC"}
_LIMIT = " LIMIT {}"


async def find(turn: Turn, query: Query) -> tuple[list[Job], int | None]:
    """Read one page, and the cursor of the next."""
    async with turn.snapshot():
        sql, bindings = compose(query, few_pending=await _few_pending(turn, query))
        seqs = [row[0] for row in await turn.fetch(sql, *bindings)]
        page = seqs[: query.limit]
        found = {row[0]: row for row in await turn.fetch(_READ, page)}
    return [rows.shown(found[seq]) for seq in page], page[-1] if len(seqs) > query.limit else None


async def _few_pending(turn: Turn, query: Query) -> bool:
    if query.status != (Status.PENDING,):
        return False
    [(number,)] = await turn.fetch(_COUNT_PENDING, _SORTABLE + 1)
    return bool(number <= _SORTABLE)


def compose(query: Query, *, few_pending: bool) -> tuple[str, list[Any]]:
    """Put the parts together: which index to walk, what to leave out, in which order."""
    driver, order = _driver(query, few_pending=few_pending)
    parts = [
        (driver, query.tag if driver is _BY_TAG else None),
        (_OF_BATCH, query.batch_id),
        (_IN_QUEUE, query.queue),
        (_OF_TASK, query.task),
        (_AT_LEAST, query.priority_min),
        (_AT_MOST, query.priority_max),
        (_IN_STATUS, [status.value for status in query.status] or None),
        (_OF_WORKER, query.worker_id),
        (_WITH_TAG, None if driver is _BY_TAG else query.tag),
        (_WITH_TEXT, query.q),
        (_AFTER if query.oldest_first else _BEFORE, query.cursor),
        (order[query.oldest_first], None),
        (_LIMIT, query.limit + 1),
    ]
    sql, bindings = "", []
    for part, value in parts:
        if value is not None:
            bindings.append(value)
            sql += part.format(f"${len(bindings)}")
        elif "{" not in part:
            sql += part
    return sql, bindings


def _driver(query: Query, *, few_pending: bool) -> tuple[str, dict[bool, str]]:
    """Choose what to walk, and in which order; what is not walked in the enqueue order must be sorted."""
    if query.batch_id is not None:
        return _ALL, _WALKED_BY_BATCH
    if query.tag is not None:
        return _BY_TAG, _WALKED
    if query.status == (Status.FAILED,):
        return _BY_FAILURE, _WALKED
    if query.status == (Status.CLAIMED,):
        return _BY_LEASE, _SORTED
    return (_BY_LANE, _SORTED) if few_pending else (_ALL, _WALKED)
