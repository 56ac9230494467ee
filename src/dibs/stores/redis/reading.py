"""Reads that are not searches: the time, jobs by id or place, by lease, by log."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dibs.domain.job import NEVER
from dibs.domain.retry import SECOND
from dibs.store import Audit
from dibs.stores.redis import values
from dibs.stores.redis.scripts import script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.domain.job import ClaimRequest, Event, Job
    from dibs.stores.redis.part import Part

_NOW = script("now")
_BY_ID = script("job_by_id")
_BY_SEQ = script("job_by_seq")
_EXPIRED = script("expired")
_PEEK = script("peek")
_LOG = script("log")
_AUDIT = script("audit")
_GONE = script("audit_gone")

MOST_BYTES = 2**21
"""Of jobs that one script reads; what is beyond that is asked for again."""

_STEP = 250  # jobs read by one script
_AUDIT_STEP = 100

Found = tuple[bytes, bytes, bytes]  # seq, body, state; empty if it is not there


async def now(site: Part) -> int:
    """Tell the time by the store's clock."""
    return int(await site.run(_NOW, site.told))


async def by_id(site: Part, ids: Sequence[str]) -> tuple[int, list[Found]]:
    """Read jobs by id; say what time it was when the first was read."""
    found: list[Found] = []
    at = None
    while len(found) < len(ids):
        told, *answer = await site.run(_BY_ID, site.told, MOST_BYTES, *ids[len(found) : len(found) + _STEP])
        at = at or int(told)
        found += zip(answer[::3], answer[1::3], answer[2::3], strict=True)
    return at or 0, found


async def by_seq(site: Part, seqs: Sequence[bytes]) -> list[Job | None]:
    """Read jobs by their places; none for what is gone."""
    found: list[Job | None] = []
    while len(found) < len(seqs):
        answer = await site.run(_BY_SEQ, MOST_BYTES, *seqs[len(found) : len(found) + _STEP])
        found += [
            values.shown(body, state) if body else None for body, state in zip(answer[::2], answer[1::2], strict=True)
        ]
    return found


async def get(site: Part, ids: Sequence[str]) -> list[Job | None]:
    """Read jobs by id, as anyone may see them."""
    _, found = await by_id(site, ids)
    return [values.shown(body, state) if body else None for _, body, state in found]


async def expired(site: Part, limit: int) -> tuple[list[Job], float]:
    """List claimed jobs whose lease has run out; and if there is none, in how many seconds the next one will."""
    late: list[Job] = []
    while len(late) < limit:
        step = min(_STEP, limit - len(late))
        at, first, *found = await site.run(_EXPIRED, site.told, len(late), step, MOST_BYTES)
        if not found:
            return late, math.inf if not first else (int(first) - int(at)) / SECOND
        late += map(values.shown, found[::2], found[1::2])
    return late, 0.0


async def peek(site: Part, request: ClaimRequest, names: list[object]) -> tuple[int, int]:
    """Say when the request may find something, and what time it is."""
    at, due = await site.run(_PEEK, site.told, request.min_attempts_left, *names)
    return int(due) if due else NEVER, int(at)


async def log(site: Part, id: str) -> list[Event]:
    """Read a job's events, or the last one of a job that was pruned."""
    known, first, *events = await site.run(_LOG, id)
    if known:
        return values.log(id, first, events)
    return [values.read_grave(id, first)] if first else []


async def audit(site: Part, cursor: str | None, limit: int) -> Audit:
    """Read jobs with their logs, then what is left of those that are gone."""
    kind, _, place = (cursor or "job:0").partition(":")
    if kind == "job":
        return await _audit_jobs(site, int(place), limit)
    last, *found = await site.run(_GONE, bytes.fromhex(place), min(limit, _STEP))
    gone = [(id.decode(), data) for id, data in zip(found[::2], found[1::2], strict=True)]
    return Audit([(None, [values.read_grave(id, data)]) for id, data in gone], f"gone:{last.hex()}" if last else None)


async def _audit_jobs(site: Part, after: int, limit: int) -> Audit:
    items: list[tuple[Job | None, list[Event]]] = []
    while len(items) < limit:
        answer = iter(await site.run(_AUDIT, values.long(after), min(_AUDIT_STEP, limit - len(items)), MOST_BYTES))
        before = len(items)
        for seq in answer:
            body, state, number = next(answer), next(answer), next(answer)
            job = values.shown(body, state)
            items.append((job, values.log(job.id, body, [next(answer) for _ in range(number)])))
            after = values.number(seq)
        if len(items) == before:
            return Audit(items, "gone:")
    return Audit(items, f"job:{after}")
