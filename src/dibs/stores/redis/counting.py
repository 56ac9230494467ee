"""Counts: how many places there are of each kind. A sorted set knows that of a range without walking it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dibs.domain.job import Counts, QueueInfo
from dibs.store import EXACT_COUNT
from dibs.stores.redis.scripts import script

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from dibs.stores.redis.part import Part

_COUNT = script("count")
_CLAIMED = script("count_claimed")

_STEP = 5_000  # leases walked by one script

_Row = list[int]  # pending, scheduled, completed, failed, cancelled


class Tally(NamedTuple):
    """What there is in one shard, by queue."""

    rows: dict[str, _Row]  # but for those that are claimed
    oldest: dict[str, int]  # when its first job was due
    claimed: dict[str, int]


async def tally(site: Part, queue: str | None = None) -> Tally:
    """Count the jobs of one queue or of all, at one moment as long as there are not very many claims."""
    answer = await site.run(_COUNT, site.told, queue or b"", _STEP)
    claimed, walked, end = _leased(answer)
    rows, oldest = _rows(answer[end:])
    if walked == _STEP:
        await _count_on(site, claimed, walked)
    return Tally(rows, oldest, claimed if queue is None else {queue: claimed.get(queue, 0)})


def counts(tallies: Sequence[Tally]) -> Counts:
    """Add up what there is in some shards."""
    rows = [row for tally in tallies for row in tally.rows.values()]
    return _shown(rows, sum(number for tally in tallies for number in tally.claimed.values()))


def queues(tallies: Sequence[Tally], paused: Collection[str]) -> list[QueueInfo]:
    """Describe every queue that has jobs or is paused."""
    names = {name for tally in tallies for name in (*tally.rows, *tally.claimed)}
    return [_queue(name, tallies, name in paused) for name in sorted({*names, *paused})]


def _queue(name: str, tallies: Sequence[Tally], paused: bool) -> QueueInfo:  # noqa: FBT001 - a field of what it makes
    counted = _shown(
        [tally.rows[name] for tally in tallies if name in tally.rows],
        sum(tally.claimed.get(name, 0) for tally in tallies),
    )
    oldest = [tally.oldest[name] for tally in tallies if name in tally.oldest]
    return QueueInfo(name, counted, paused, min(oldest, default=None))


def _rows(answer: list[Any]) -> tuple[dict[str, _Row], dict[str, int]]:
    """Read each queue's jobs, but for those that are claimed; and when its first job was due."""
    rows: dict[str, _Row] = {}
    oldest: dict[str, int] = {}
    for at in range(0, len(answer), 7):
        name = answer[at].decode()
        rows[name] = answer[at + 1 : at + 6]
        if answer[at + 6]:
            oldest[name] = int(answer[at + 6])
    return rows, oldest


def _leased(answer: list[Any]) -> tuple[dict[str, int], int, int]:
    """Read how many are claimed in each queue, how many leases were walked for that, and where the answer goes on."""
    walked, queues = answer[:2]
    end = 2 + 2 * queues
    return {name.decode(): number for name, number in zip(answer[2:end:2], answer[3:end:2], strict=True)}, walked, end


async def _count_on(site: Part, claimed: dict[str, int], start: int) -> None:
    """Count the claims from there on: this walks them all, some at a time, as many as workers hold."""
    walked = _STEP
    while walked == _STEP:
        more, walked, _ = _leased(await site.run(_CLAIMED, start, _STEP))
        for name, number in more.items():
            claimed[name] = claimed.get(name, 0) + number
        start += walked


def _shown(rows: Iterable[_Row], claimed: int) -> Counts:
    totals = [sum(column) for column in zip([0] * 5, *rows, strict=True)]
    pending, scheduled, completed, failed, cancelled = totals
    exact = max(*totals, claimed) <= EXACT_COUNT
    return Counts(pending, scheduled, claimed, completed, failed, cancelled, exact=exact)
