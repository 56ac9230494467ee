"""Counts: how many places there are of each kind. A sorted set knows that of a range without walking it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.domain.job import Counts, QueueInfo
from dibs.store import EXACT_COUNT, PAUSED
from dibs.stores.redis import registry
from dibs.stores.redis.scripts import script

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.stores.redis.part import Part

_COUNT = script("count")
_CLAIMED = script("count_claimed")

_STEP = 5_000  # leases walked by one script

_Row = list[int]  # pending, scheduled, completed, failed, cancelled


async def counts(site: Part, queue: str | None) -> Counts:
    """Count the jobs of one queue or of all."""
    rows, _ = await _rows(site, queue)
    held = await _claimed(site)
    claimed = sum(held.values()) if queue is None else held.get(queue, 0)
    return _shown(rows.values(), claimed)


async def queues(site: Part) -> list[QueueInfo]:
    """Describe every queue that has jobs or is paused."""
    rows, oldest = await _rows(site, None)
    held = await _claimed(site)
    paused = {document.name.removeprefix(PAUSED) for document in await registry.documents(site, PAUSED)}
    return [
        QueueInfo(
            name, _shown([rows[name]] if name in rows else [], held.get(name, 0)), name in paused, oldest.get(name)
        )
        for name in sorted({*rows, *held, *paused})
    ]


async def _rows(site: Part, queue: str | None) -> tuple[dict[str, _Row], dict[str, int]]:
    """Count each queue's jobs, but for those that are claimed; and tell when its first job was due."""
    _, *answer = await site.run(_COUNT, site.told, queue or b"")
    rows: dict[str, _Row] = {}
    oldest: dict[str, int] = {}
    for at in range(0, len(answer), 7):
        name = answer[at].decode()
        rows[name] = answer[at + 1 : at + 6]
        if answer[at + 6]:
            oldest[name] = int(answer[at + 6])
    return rows, oldest


async def _claimed(site: Part) -> dict[str, int]:
    """Count claimed jobs by queue: this walks them all, some at a time, as many as workers hold."""
    held: dict[str, int] = {}
    start = 0
    while True:
        walked, *answer = await site.run(_CLAIMED, start, _STEP)
        for queue, number in zip(answer[::2], answer[1::2], strict=True):
            name = queue.decode()
            held[name] = held.get(name, 0) + number
        if walked < _STEP:
            return held
        start += walked


def _shown(rows: Iterable[_Row], claimed: int) -> Counts:
    totals = [sum(column) for column in zip([0] * 5, *rows, strict=True)]
    pending, scheduled, completed, failed, cancelled = totals
    exact = max(*totals, claimed) <= EXACT_COUNT
    return Counts(pending, scheduled, claimed, completed, failed, cancelled, exact=exact)
