"""Insert: each group whole or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from dibs.domain.transitions import identify
from dibs.store import Refusal
from dibs.stores.common.rows import TermsWriter
from dibs.stores.sqlite import rows
from dibs.stores.sqlite.rows import Lane, json_array
from dibs.stores.sqlite.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dibs.domain.job import Draft, Job
    from dibs.stores.sqlite.moment import Moment

_IDS = statement("job_ids")
_BY_ID = statement("job_by_id")
_BY_KEY = statement("job_by_key")
_BY_UNIQUE = statement("job_by_unique")
_PLACE = statement("insert_place")
_JOB = statement("insert_job")
_PAYLOAD = statement("insert_payload")
_TAG = statement("insert_tag")
_LANE_FIND = statement("lane_find")
_LANE_ADD = statement("lane_add")
_LANE_LOWER = statement("lane_lower")


def insert(moment: Moment, groups: Iterable[Sequence[Draft]]) -> list[list[Job] | Refusal]:
    """Judge a group before anything of it is written, so that a refusal has nothing to undo."""
    return [_insert_group(moment, group) for group in groups]


def _insert_group(moment: Moment, group: Sequence[Draft]) -> list[Job] | Refusal:
    named = _Named(moment, group)
    jobs: list[Job] = []
    new: list[Job] = []
    for index, draft in enumerate(group):
        first, mismatch = named.identify(draft)
        if first is None:
            job = draft.job(moment.now)
            named.add(job)
            new.append(job)
            jobs.append(job)
        elif mismatch is not None:
            return Refusal(index, mismatch, first)
        else:
            jobs.append(replace(first, was_duplicate=True))
    if new:
        _write(moment, new)
    return jobs


class _Named:
    """The jobs that a group's drafts may name, among those stored and those that come before them in the group."""

    def __init__(self, moment: Moment, group: Sequence[Draft]) -> None:
        self._by_id: dict[str, Job] = {}
        self._by_key: dict[str, Job] = {}
        self._by_unique: dict[str, Job] = {}
        ids = json_array([draft.id for draft in group])
        if moment.execute(_IDS, (ids,)).fetchone():
            self._by_id = {job.id: job for job in rows.shown(moment.rows(_BY_ID, ids), moment.lanes)}
        if keys := [(draft.idempotency_key,) for draft in group if draft.idempotency_key is not None]:
            jobs = rows.shown(moment.executemany(_BY_KEY, keys).fetchall(), moment.lanes)
            self._by_key = {job.idempotency_key or "": job for job in jobs}
        if keys := [(draft.unique_key,) for draft in group if draft.unique_key is not None]:
            jobs = rows.shown(moment.executemany(_BY_UNIQUE, keys).fetchall(), moment.lanes)
            self._by_unique = {job.unique_key or "": job for job in jobs}

    def identify(self, draft: Draft) -> tuple[Job | None, str | None]:
        by_key = by_unique = None
        if draft.idempotency_key is not None:
            by_key = self._by_key.get(draft.idempotency_key)
        if draft.unique_key is not None:
            by_unique = self._by_unique.get(draft.unique_key)
        return identify(draft, self._by_id.get(draft.id), by_key, by_unique)

    def add(self, job: Job) -> None:
        self._by_id[job.id] = job
        if job.idempotency_key is not None:
            self._by_key[job.idempotency_key] = job
        if job.unique_key is not None:
            self._by_unique[job.unique_key] = job


def _write(moment: Moment, new: list[Job]) -> None:
    lanes = lanes_of(moment, [((job.queue, job.task, job.priority), job.due_us) for job in new])
    moment.touched = True
    place = moment.execute(_PLACE).fetchone()
    first = 1 if place is None else place[0] + 1
    terms = TermsWriter()
    moment.executemany(
        _JOB,
        [
            (
                seq, job.id, lanes[job.queue, job.task, job.priority].id, job.due_us, job.max_attempts, moment.now,
                job.terms.lease_us, job.keep.completed, job.idempotency_key, job.unique_key, job.batch_id,
            )
            for seq, job in enumerate(new, first)
        ],
    )  # fmt: skip
    moment.executemany(
        _PAYLOAD,
        [(seq, job.due_us, terms.encode(job.terms, job.keep), job.params_json) for seq, job in enumerate(new, first)],
    )
    tags = [(tag, seq) for seq, job in enumerate(new, first) if job.terms.tags for tag in job.terms.tags]
    if tags:
        moment.executemany(_TAG, tags)


def lanes_of(moment: Moment, wanted: Iterable[tuple[tuple[str, str, int], int]]) -> dict[tuple[str, str, int], Lane]:
    """Find or make the lane of each job, by name and due time, and see that its bound is no later than what comes in.

    Always by name and never by a remembered number: the lane may have been pruned since.
    """
    earliest: dict[tuple[str, str, int], int] = {}
    for key, due in wanted:
        if key not in earliest or due < earliest[key]:
            earliest[key] = due
    lanes: dict[tuple[str, str, int], Lane] = {}
    for key, due in earliest.items():
        found = moment.execute(_LANE_FIND, key).fetchone()
        if found is None:
            [found] = moment.execute(_LANE_ADD, (*key, due)).fetchall()
        elif due < found[1]:
            moment.execute(_LANE_LOWER, (found[0], due))
        lanes[key] = moment.lanes[found[0]] = Lane(found[0], *key)
        moment.announce(lanes[key], due)
    return lanes
