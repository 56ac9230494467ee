"""Claim on a cluster: the shards that have jobs of the queues asked for, in turn, beginning with another one each time.

The order is each shard's own: nothing is promised across queues, nor across the parts of one that is spread.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from msgspec.structs import replace

from dibs.domain.errors import StoreUnavailable
from dibs.domain.job import NEVER
from dibs.stores.redis import claiming, reading
from dibs.stores.redis.cluster.shards import SHARDS
from dibs.stores.redis.cluster.together import reachable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from random import Random

    from dibs.domain.job import ClaimRequest, Job
    from dibs.stores.redis.cluster.shards import Spread
    from dibs.stores.redis.cluster.site import ShardPart, Site


def shards_of(queues: Iterable[str] | None, spread: Spread) -> list[int]:
    """Name the shards that have jobs of these queues; none: of all."""
    if queues is None:
        return list(range(SHARDS))
    return list(dict.fromkeys(shard for queue in queues for shard in spread.shards(queue)))


async def claim(site: Site, spread: Spread, requests: Sequence[ClaimRequest], random: Random) -> list[list[Job]]:
    """Serve each request in turn; those in a row that want the same are served together."""
    answers: list[list[Job]] = [[] for _ in requests]
    start = 0
    for _, alike in groupby(requests, lambda request: (request.heard, claiming.wish(request))):
        several = list(alike)
        await _serve(site, spread, several, answers[start : start + len(several)], random)
        start += len(several)
    return answers


async def _serve(
    site: Site, spread: Spread, requests: list[ClaimRequest], answers: list[list[Job]], random: Random
) -> None:
    away: StoreUnavailable | None = None
    left = await _in_turn(site, spread, requests[0])
    looked = reached = False
    while left:
        part = left.pop(0)
        wanted = [replace(one, limit=one.limit - len(got)) for one, got in zip(requests, answers, strict=True)]
        open_ = [place for place, one in enumerate(wanted) if one.limit > 0]
        if not open_:
            return
        try:
            claimed = await claiming.claim(part, [wanted[place] for place in open_], random)
            reached = True
        except StoreUnavailable as error:
            away = error
            continue
        for place, jobs in zip(open_, claimed.answers, strict=True):
            site.places.remember(jobs, part.place)
            answers[place] += jobs
        if not looked and len(left) > 1:
            looked = True
            left = await _with_due(site, spread, requests[0], left)
    if away is not None and not reached and not any(answers):
        raise away


async def _in_turn(site: Site, spread: Spread, request: ClaimRequest) -> list[ShardPart]:
    if request.id is not None:
        [shard] = await site.places.find([request.id])
        return [] if shard is None else [site.parts[shard]]
    shards = shards_of(request.queues if request.heard is None else request.heard, spread)
    first = site.turn() % len(shards) if shards else 0
    return [site.parts[shard] for shard in shards[first:] + shards[:first]]


async def _with_due(site: Site, spread: Spread, request: ClaimRequest, left: list[ShardPart]) -> list[ShardPart]:
    """Leave out those that have nothing: all are asked at once, so that a look in vain is not one after the other.

    Whoever finds nothing is going to wait, and need not look again for that.
    """
    due: set[ShardPart] = set()

    async def look(queues: frozenset[str] | None) -> tuple[int, int]:
        parts, found = await _look(site, spread, request, queues)
        due.update(part for part, one in zip(parts, found, strict=True) if one is not None and one[0] <= one[1])
        return _first(found)

    await (look(request.heard) if request.heard is not None else site.waiting.look(request, look))
    return [part for part in left if part in due]


async def peek(site: Site, spread: Spread, request: ClaimRequest, queues: frozenset[str] | None) -> tuple[int, int]:
    """Say when a request may find something in these queues, and what time it is; masters may differ about that."""
    _, found = await _look(site, spread, request, queues)
    return _first(found)


async def _look(
    site: Site, spread: Spread, request: ClaimRequest, queues: frozenset[str] | None
) -> tuple[list[ShardPart], list[tuple[int, int] | None]]:
    names = [*claiming.names(request.queues), *claiming.names(request.tasks)]
    parts = [site.parts[shard] for shard in shards_of(request.queues if queues is None else queues, spread)]
    return parts, await reachable(reading.peek(part, request, names) for part in parts)


def _first(found: list[tuple[int, int] | None]) -> tuple[int, int]:
    there = [one for one in found if one is not None]
    waits = [due - now for due, now in there if due < NEVER]
    now = max((now for _, now in there), default=0)
    return (now + min(waits) if waits else NEVER), now
