"""Reads that are not searches: by id, by lease, by log, and what a waiter may expect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.domain.job import NEVER
from dibs.store import Audit
from dibs.stores.common.rows import enqueued, event, tombstone
from dibs.stores.sqlite import rows
from dibs.stores.sqlite.claiming import LANE_ORDERS
from dibs.stores.sqlite.rows import json_array
from dibs.stores.sqlite.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.domain.job import ClaimRequest, Event, Job
    from dibs.stores.sqlite.moment import Moment

_BY_ID = statement("job_by_id")
_EXPIRED = statement("expired")
_PRUNE_FIND = statement("prune_find")
_LOG_HEAD = statement("log_head")
_LOG_PAGE = statement("log_page")
_TOMBSTONE = statement("tombstone_read")
_TOMBSTONES = statement("tombstone_page")
_JOB_PAGE = statement("job_page")
_WAITING = statement("lane_waiting")
_WAITING_OF = statement("lane_waiting_of")
_PICK_LEFT = statement("claim_pick_left")
_UNUSED = statement("lane_prune_find")


def get(moment: Moment, ids: Sequence[str]) -> list[Job | None]:
    """Read jobs by id."""
    found = {job.id: job for job in rows.shown(moment.rows(_BY_ID, json_array(ids)), moment.lanes)}
    return [found.get(id) for id in ids]


def expired(moment: Moment, limit: int) -> list[Job]:
    """List claimed jobs whose lease has run out."""
    return rows.shown(moment.rows(_EXPIRED, moment.now, limit), moment.lanes)


def prunable(moment: Moment, limit: int) -> list[int]:
    """List finished jobs whose time is over."""
    return [seq for (seq,) in moment.rows(_PRUNE_FIND, moment.now, limit)]


def unused_lanes(moment: Moment) -> list[int]:
    """List the lanes that no job refers to."""
    return [id for (id,) in moment.rows(_UNUSED)]


def log(moment: Moment, id: str) -> list[Event]:
    """Read a job's events, or the last one of a job that was pruned."""
    for seq, created, due in moment.rows(_LOG_HEAD, id):
        return [enqueued(id, created, due), *(event(id, row) for row in moment.rows(_LOG_PAGE, f"[{seq}]"))]
    return [tombstone(row) for row in moment.rows(_TOMBSTONE, id)]


def audit(moment: Moment, cursor: str | None, limit: int) -> Audit:
    """Read jobs with their logs, then what is left of those that are gone."""
    kind, _, place = (cursor or "job:0").partition(":")
    if kind == "job":
        page = moment.rows(_JOB_PAGE, int(place), limit)
        found = rows.shown(page, moment.lanes)
        logs: dict[int, list[Event]] = {
            row[0]: [enqueued(job.id, job.created_us, row[-1])] for row, job in zip(page, found, strict=True)
        }
        names = {row[0]: row[2] for row in page}
        for row in moment.rows(_LOG_PAGE, json_array(list(logs))):
            logs[row[0]].append(event(names[row[0]], row))
        items = list(zip(found, logs.values(), strict=True))
        return Audit([*items], f"job:{page[-1][0]}" if len(page) == limit else "gone:")
    gone = [tombstone(row) for row in moment.rows(_TOMBSTONES, place, limit)]
    return Audit([(None, [event]) for event in gone], f"gone:{gone[-1].job_id}" if len(gone) == limit else None)


def peek(moment: Moment, request: ClaimRequest) -> int:
    """Say when the request may find something: a time that is over means now.

    Lanes' bounds may be too early. Then a claim finds nothing and corrects them, so no one is sent on a vain errand
    twice. Where a filter hides jobs, or the order is not the lanes', a claim corrects nothing, and the jobs themselves
    are looked at.
    """
    corrects = request.min_attempts_left <= 1 and request.order in LANE_ORDERS
    sql, bindings = (_WAITING, ()) if request.queues is None else (_WAITING_OF, (json_array(request.queues),))
    earliest = NEVER
    for lane_id, queue, task, next_due in moment.rows(sql, *bindings):
        if next_due < earliest and queue not in moment.paused and request.wants(queue, task):
            due = next_due
            if not corrects:
                first = moment.rows(_PICK_LEFT, lane_id, 1, request.min_attempts_left)
                due = first[0][0] if first else NEVER
            earliest = min(earliest, due)
    return earliest
