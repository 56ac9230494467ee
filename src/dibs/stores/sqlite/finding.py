"""Find: the one place that composes a statement, and only from the fixed parts below.

What drives the search is the narrowest thing asked for: a batch, a tag, the dead letter, what is held, what waits if
that is little, and otherwise the enqueue order, at the price of what it skips. That is dear for a queue that is rare
among millions, and for ``q``, which reads every payload on the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.domain.job import Query, Status
from dibs.stores.sqlite.rows import json_array, shown
from dibs.stores.sqlite.statements import statement

if TYPE_CHECKING:
    from dibs.domain.job import Job
    from dibs.stores.sqlite.moment import Moment

_SORTABLE = 2_000  # pending jobs that are sorted rather than sought among all others

_READ = statement("job_by_seq")
_COUNT_PENDING = statement("find_pending_few")

_BY_PLACE = "SELECT seq FROM dibs_job AS job NOT INDEXED WHERE 1"
_BY_BATCH = "SELECT seq FROM dibs_job AS job INDEXED BY dibs_job_batch WHERE batch_id = :batch_id"
_BY_TAG = """SELECT tag.job AS seq FROM dibs_tag AS tag CROSS JOIN dibs_job AS job ON job.seq = tag.job
  WHERE tag.tag = :tag"""
_BY_FAILURE = "SELECT seq FROM dibs_job AS job INDEXED BY dibs_job_failed WHERE job.status = 'failed'"
_BY_LEASE = "SELECT seq FROM dibs_job AS job INDEXED BY dibs_job_leases WHERE job.status = 'claimed'"
_BY_LANE = "SELECT seq FROM dibs_job AS job INDEXED BY dibs_job_pending WHERE job.status = 'pending'"

_IN_LANES = """ AND job.lane IN (SELECT id FROM dibs_lane
  WHERE (:queue IS NULL OR queue = :queue) AND (:task IS NULL OR task = :task)
    AND priority BETWEEN coalesce(:priority_min, -32768) AND coalesce(:priority_max, 32767))"""
_IN_STATUS = " AND job.status IN (SELECT value FROM json_each(:status))"
_OF_WORKER = " AND job.worker_id = :worker_id"
_OF_BATCH = " AND job.batch_id = :batch_id"
_WITH_TAG = " AND EXISTS (SELECT 1 FROM dibs_tag AS tag WHERE tag.tag = :tag AND tag.job = job.seq)"
_WITH_TEXT = """ AND (instr(job.id, :q) > 0
  OR EXISTS (SELECT 1 FROM dibs_payload WHERE dibs_payload.seq = job.seq AND instr(params, CAST(:q AS BLOB)) > 0))"""
_BEFORE = " AND job.seq < :cursor"
_AFTER = " AND job.seq > :cursor"
_NEWEST_FIRST = " ORDER BY seq DESC LIMIT :limit"
_OLDEST_FIRST = " ORDER BY seq LIMIT :limit"


def find(moment: Moment, query: Query) -> tuple[list[Job], int | None]:
    """Read one page, and the cursor of the next."""
    sql, bindings = compose(query, few_pending=_few_pending(moment, query))
    seqs = [seq for (seq,) in moment.execute(sql, bindings)]
    page = seqs[: query.limit]
    found = {row[0]: row for row in moment.execute(_READ, (json_array(page),))}
    return shown([found[seq] for seq in page], moment.lanes), page[-1] if len(seqs) > query.limit else None


def _few_pending(moment: Moment, query: Query) -> bool:
    if query.status != (Status.PENDING,):
        return False
    [(number,)] = moment.rows(_COUNT_PENDING, _SORTABLE + 1)
    return bool(number <= _SORTABLE)


def compose(query: Query, *, few_pending: bool) -> tuple[str, dict[str, str | int | None]]:
    """Put the parts together: which index to walk, what to leave out, in which order."""
    sql = _driver(query, few_pending=few_pending)
    of_lanes = (query.queue, query.task, query.priority_min, query.priority_max)
    filters = [
        (_IN_LANES, any(value is not None for value in of_lanes)),
        (_IN_STATUS, bool(query.status)),
        (_OF_WORKER, query.worker_id is not None),
        (_OF_BATCH, query.batch_id is not None),
        (_WITH_TAG, query.tag is not None),
        (_WITH_TEXT, query.q is not None),
        (_AFTER if query.oldest_first else _BEFORE, query.cursor is not None),
    ]
    sql += "".join(part for part, wanted in filters if wanted)
    sql += _OLDEST_FIRST if query.oldest_first else _NEWEST_FIRST
    return sql, {
        "batch_id": query.batch_id,
        "tag": query.tag,
        "queue": query.queue,
        "task": query.task,
        "priority_min": query.priority_min,
        "priority_max": query.priority_max,
        "status": json_array([status.value for status in query.status]),
        "worker_id": query.worker_id,
        "q": query.q,
        "cursor": query.cursor,
        "limit": query.limit + 1,
    }


def _driver(query: Query, *, few_pending: bool) -> str:
    if query.batch_id is not None:
        return _BY_BATCH
    if query.tag is not None:
        return _BY_TAG
    if query.status == (Status.FAILED,):
        return _BY_FAILURE
    if query.status == (Status.CLAIMED,):
        return _BY_LEASE
    return _BY_LANE if few_pending else _BY_PLACE
