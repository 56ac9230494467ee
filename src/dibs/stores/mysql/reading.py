"""Reads that are not searches: by id, by lease, by log."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dibs.domain.retry import SECOND
from dibs.store import Audit
from dibs.stores.common.rows import enqueued
from dibs.stores.mysql import rows
from dibs.stores.mysql.literals import step
from dibs.stores.mysql.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.domain.job import Event, Job
    from dibs.stores.mysql.turn import Turn

_NOW = statement("clock_read")
_BY_ID = statement("job_by_id")
_BY_SEQ = statement("job_by_seq")
_EXPIRED_LANES = statement("expired_lanes")
_EXPIRED = statement("expired")
_LOG_HEAD = statement("log_head")
_LOG_PAGE = statement("log_page")
_TOMBSTONE = statement("tombstone_read")
_TOMBSTONES = statement("tombstone_page")
_JOB_PAGE = statement("job_page")


async def now(turn: Turn) -> int:
    """Tell the time by the store's clock."""
    [(at,)] = await turn.fetch(_NOW, turn.told)
    return int(at)


async def get(turn: Turn, ids: Sequence[str]) -> list[Job | None]:
    """Read jobs by id."""
    found = {job.id: job for job in map(rows.shown, await turn.fetch(_BY_ID, tuple(id.encode() for id in ids)))}
    return [found.get(id) for id in ids]


async def expired(turn: Turn, limit: int) -> tuple[list[Job], float]:
    """List claimed jobs whose lease has run out; and if there is none, in how many seconds the next one will."""
    [(at,)], lanes = await turn.run(step(_NOW, turn.told), step(_EXPIRED_LANES))
    ends = {lane: first for lane, first in lanes if first is not None}
    over = [lane for lane, first in ends.items() if first <= at]
    if not over:
        return [], (min(ends.values()) - at) / SECOND if ends else math.inf
    found = await turn.run(*(step(_EXPIRED, lane, at, limit) for lane in over))
    late = [seq for _, seq in sorted(row for rows_ in found for row in rows_)[:limit]]
    jobs = {row[0]: rows.shown(row) for row in await turn.fetch(_BY_SEQ, tuple(late))}
    return [jobs[seq] for seq in late if seq in jobs], 0.0


async def log(turn: Turn, id: str) -> list[Event]:
    """Read a job's events, or the last one of a job that was pruned."""
    async with turn.snapshot():
        for seq, created, due in await turn.fetch(_LOG_HEAD, id.encode()):
            events = await turn.fetch(_LOG_PAGE, (seq,))
            return [enqueued(id, created, due), *(rows.event(id, row) for row in events)]
        return [rows.tombstone(row) for row in await turn.fetch(_TOMBSTONE, id.encode())]


async def audit(turn: Turn, cursor: str | None, limit: int) -> Audit:
    """Read jobs with their logs, then what is left of those that are gone."""
    kind, _, place = (cursor or "job:0").partition(":")
    if kind == "job":
        async with turn.snapshot():
            page = await turn.fetch(_JOB_PAGE, int(place), limit)
            events = await turn.fetch(_LOG_PAGE, tuple(row[0] for row in page))
        logs: dict[int, list[Event]] = {row[0]: [] for row in page}
        names = {row[0]: row[2].decode() for row in page}
        for row in events:
            logs[row[0]].append(rows.event(names[row[0]], row))
        items = [
            (job, [enqueued(job.id, job.created_us, row[-1]), *logs[row[0]]])
            for row, job in zip(page, map(rows.shown, page), strict=True)
        ]
        return Audit([*items], f"job:{page[-1][0]}" if len(page) == limit else "gone:")
    gone = [rows.tombstone(row) for row in await turn.fetch(_TOMBSTONES, place.encode(), limit)]
    return Audit([(None, [event]) for event in gone], f"gone:{gone[-1].job_id}" if len(gone) == limit else None)
