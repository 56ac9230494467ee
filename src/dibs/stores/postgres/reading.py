"""Reads that are not searches: by id, by lease, by log."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dibs.domain.job import NEVER
from dibs.domain.retry import SECOND
from dibs.store import Audit
from dibs.stores.common import rows
from dibs.stores.postgres.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.domain.job import ClaimRequest, Event, Job
    from dibs.stores.common.places import Arrays
    from dibs.stores.postgres.turn import Turn

_NOW = statement("clock_read")
_BY_ID = statement("job_by_id")
_EXPIRED = statement("expired")
_LOG_HEAD = statement("log_head")
_LOG_PAGE = statement("log_page")
_TOMBSTONE = statement("tombstone_read")
_TOMBSTONES = statement("tombstone_page")
_JOB_PAGE = statement("job_page")
_PEEK = statement("peek")


async def now(turn: Turn) -> int:
    """Tell the time by the store's clock."""
    [(at,)] = await turn.fetch(_NOW, turn.told)
    return int(at)


async def get(turn: Turn, ids: Sequence[str]) -> list[Job | None]:
    """Read jobs by id."""
    found = {job.id: job for job in map(rows.shown, await turn.fetch(_BY_ID, list(ids)))}
    return [found.get(id) for id in ids]


async def expired(turn: Turn, limit: int) -> tuple[list[Job], float]:
    """List claimed jobs whose lease has run out; and if there is none, in how many seconds the next one will."""
    found = await turn.fetch(_EXPIRED, turn.told, limit)
    at, following = found[0][0], found[0][1]
    late = [rows.shown(row[2:]) for row in map(tuple, found) if row[2] is not None]
    return late, math.inf if following is None else (following - at) / SECOND


async def log(turn: Turn, id: str) -> list[Event]:
    """Read a job's events, or the last one of a job that was pruned."""
    async with turn.snapshot():
        for seq, created, due in await turn.fetch(_LOG_HEAD, id):
            events = await turn.fetch(_LOG_PAGE, [seq])
            return [rows.enqueued(id, created, due), *(rows.event(id, row) for row in events)]
        return [rows.tombstone(row) for row in await turn.fetch(_TOMBSTONE, id)]


async def audit(turn: Turn, cursor: str | None, limit: int) -> Audit:
    """Read jobs with their logs, then what is left of those that are gone."""
    kind, _, place = (cursor or "job:0").partition(":")
    if kind == "job":
        async with turn.snapshot():
            page = await turn.fetch(_JOB_PAGE, int(place), limit)
            events = await turn.fetch(_LOG_PAGE, [row[0] for row in page])
        found = [rows.shown(row) for row in page]
        logs: dict[int, list[Event]] = {
            row[0]: [rows.enqueued(job.id, job.created_us, row[-1])] for row, job in zip(page, found, strict=True)
        }
        names = {row[0]: row[2] for row in page}
        for row in events:
            logs[row[0]].append(rows.event(names[row[0]], row))
        items = list(zip(found, logs.values(), strict=True))
        return Audit([*items], f"job:{page[-1][0]}" if len(page) == limit else "gone:")
    gone = [rows.tombstone(row) for row in await turn.fetch(_TOMBSTONES, place, limit)]
    return Audit([(None, [event]) for event in gone], f"gone:{gone[-1].job_id}" if len(gone) == limit else None)


async def peek(turn: Turn, request: ClaimRequest, places: Arrays) -> tuple[int, int]:
    """Say when the request may find something, and what time it is."""
    [(at, due)] = await turn.fetch(
        _PEEK,
        turn.told,
        None if request.queues is None else list(request.queues),
        None if request.tasks is None else list(request.tasks),
        request.min_attempts_left,
        *places,
    )
    return NEVER if due is None else due, at
