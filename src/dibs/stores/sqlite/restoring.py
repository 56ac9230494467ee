"""Restore: whole jobs with their logs, as another store has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.stores.common import restoring
from dibs.stores.common.rows import TermsWriter, encode_error
from dibs.stores.sqlite import rows
from dibs.stores.sqlite.inserting import lanes_of
from dibs.stores.sqlite.rows import json_array
from dibs.stores.sqlite.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dibs.domain.job import Event, Job
    from dibs.stores.common.restoring import Found, Whole
    from dibs.stores.sqlite.moment import Moment

_BY_ID = statement("job_by_id")
_BY_KEY = statement("job_by_key")
_BY_UNIQUE = statement("job_by_unique")
_PLACE = statement("insert_place")
_JOB = statement("restore_job")
_PAYLOAD = statement("insert_payload")
_TAG = statement("insert_tag")
_LOG = statement("write_log")

_NEW, _USED, _ENDED = 92, 28, 0  # bytes of room: see insert_job, claim_take and write_job


def restore(moment: Moment, items: Iterable[tuple[Job, Sequence[Event]]]) -> list[Job | None]:
    """Put down what is new; answer the rest with the jobs that have its names."""
    wholes = restoring.whole(items)
    new, answers = restoring.sift(wholes, _named(moment, wholes))
    if new:
        _write(moment, new)
    return answers


def _named(moment: Moment, items: Sequence[Whole]) -> list[Found]:
    ids, keys, uniques = restoring.names(items)
    found = [("id", row) for row in moment.rows(_BY_ID, json_array(ids))]
    found += [("key", row) for row in moment.executemany(_BY_KEY, [(key,) for key in keys])]
    found += [("unique", row) for row in moment.executemany(_BY_UNIQUE, [(key,) for key in uniques])]
    jobs = rows.shown([row for _, row in found], moment.lanes)
    return [(by, job) for (by, _), job in zip(found, jobs, strict=True)]


def _write(moment: Moment, new: Sequence[Whole]) -> None:
    lanes = lanes_of(moment, [(item.lane, item.waits_for) for item in new])
    moment.touched = True
    moment.now = max(moment.now, restoring.latest(new))
    place = moment.execute(_PLACE).fetchone()
    first = 1 if place is None else place[0] + 1
    terms = TermsWriter()
    placed = list(enumerate(new, first))
    moment.executemany(_JOB, [_row(seq, lanes[item.lane].id, item) for seq, item in placed])
    moment.executemany(
        _PAYLOAD,
        [
            (seq, item.first_due, terms.encode(item.job.terms, item.job.keep), item.job.params_json)
            for seq, item in placed
        ],
    )
    moment.executemany(_TAG, [(tag, seq) for seq, item in placed for tag in item.job.tags])
    moment.executemany(_LOG, [rows.logged(event, seq) for seq, item in placed for event in item.events[1:]])


def _row(seq: int, lane: int, item: Whole) -> rows.Row:
    job = item.job
    room = _ENDED if job.status.finished else _USED if job.fence else _NEW
    return (
        seq, job.id, lane, job.status, job.due_us, job.attempts, job.max_attempts, job.fence, job.events,
        job.created_us, job.updated_us, job.terms.lease_us, job.keep.completed, job.worker_id, job.claimed_us,
        job.lease_expires_us, job.claim_lease_us, job.settled_as, job.completed_us, item.expires, job.progress,
        job.progress_note, job.idempotency_key, job.unique_key, job.batch_id, encode_error(job.error),
        job.result_json, room,
    )  # fmt: skip
