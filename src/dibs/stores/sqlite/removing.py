"""Remove: what goes with a job, what stays of it, and what else is swept up now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.domain import transitions
from dibs.domain.job import Event, Job
from dibs.domain.retry import SECOND
from dibs.stores.common.rows import buried
from dibs.stores.sqlite import rows
from dibs.stores.sqlite.rows import json_array
from dibs.stores.sqlite.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.stores.sqlite.moment import Moment

_DAY = 86_400 * SECOND

_REMOVE = [statement("remove_job"), statement("remove_payload"), statement("remove_events")]
_REMOVE_TAG = statement("remove_tag")
_BURY = statement("tombstone_add")
_DUE = statement("prune_due")
_TOMBSTONES = statement("tombstone_prune")
_DOCUMENTS = statement("document_prune")
_LANES = statement("lane_prune")


def remove(moment: Moment, gone: Sequence[tuple[int, Job, Event]]) -> None:
    """Remove jobs with all that belongs to them, and leave each one's last event."""
    moment.touched = True
    seqs = json_array([seq for seq, _, _ in gone])
    for statement_ in _REMOVE:
        moment.execute(statement_, (seqs,))
    if tags := [(tag, seq) for seq, job, _ in gone for tag in job.terms.tags]:
        moment.executemany(_REMOVE_TAG, tags)
    moment.executemany(_BURY, [buried(event) for _, _, event in gone])


def prune(moment: Moment, seqs: Sequence[int]) -> int:
    """Remove those of these jobs that are still finished and whose time is still over."""
    gone: list[tuple[int, Job, Event]] = []
    for row in moment.rows(_DUE, json_array(seqs), moment.now):
        job = rows.job(row, moment.lanes)
        gone.append((row[0], job, transitions.prune(job, moment.now)))
    if gone:
        remove(moment, gone)
    return len(gone)


def sweep(moment: Moment, limit: int) -> int:
    """Remove old tombstones and outlived documents, up to so many of each; say how many of the more numerous."""
    moment.execute(_TOMBSTONES, (moment.now - _DAY, limit))
    tombstones = moment.connection.changes()
    moment.execute(_DOCUMENTS, (moment.now, limit))
    return max(tombstones, moment.connection.changes())


def remove_lanes(moment: Moment, ids: Sequence[int]) -> None:
    """Remove those of these lanes that are still unused."""
    moment.execute(_LANES, (json_array(ids),))
