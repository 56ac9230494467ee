"""Claim: which jobs, in which order, and the lease."""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING, Any

from dibs.domain.errors import StoreUnavailable
from dibs.domain.job import Order, Status
from dibs.domain.retry import SECOND
from dibs.stores.redis import reading, values
from dibs.stores.redis.scripts import script

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from dibs.domain.job import ClaimRequest, Job
    from dibs.stores.redis.part import Part

_CLAIM = script("claim")
_PAGE = script("claim_page")
_TAKE = script("claim_take")

_LEVEL = {Order.PRIORITY: 1, Order.PRIORITY_ASC: -1}
_STEP = 250  # jobs leased by one script
_PAGE_SIZE = 1000  # places read by one script


class Claimed:
    """What came of some requests."""

    def __init__(self, requests: Sequence[ClaimRequest]) -> None:
        self.answers: list[list[Job]] = [[] for _ in requests]
        self.first_lease: float | None = None  # if nothing was found: in how many seconds the first lease runs out


async def claim(site: Part, requests: Sequence[ClaimRequest], random: Random) -> Claimed:
    """Serve each request in turn; those in a row that want the same are served together."""
    claimed = Claimed(requests)
    try:
        await _claim(site, requests, random, claimed)
    except StoreUnavailable:
        if not any(claimed.answers):  # what was leased is theirs, though there may have been more
            raise
    return claimed


async def _claim(site: Part, requests: Sequence[ClaimRequest], random: Random, claimed: Claimed) -> None:
    start = 0
    for (*_, left, order, id), alike in groupby(requests, wish):
        several = list(alike)
        answers = claimed.answers[start : start + len(several)]
        start += len(several)
        if id is None and order in _LEVEL and left <= 1:
            claimed.first_lease = await _claim_best(site, several, answers)
        else:
            for request, answer in zip(several, answers, strict=True):
                await _claim_picked(site, request, answer, random)


def wish(request: ClaimRequest) -> tuple[Any, ...]:
    """Say what is the same about requests that are served together."""
    return request.queues, request.tasks, request.min_attempts_left, request.order, request.id


def names(chosen: tuple[str, ...] | None) -> list[Any]:
    """Write a list of names as scripts read it: sorted by bytes, none twice."""
    if chosen is None:
        return [b""]
    several = sorted({name.encode() for name in chosen})
    return [len(several), *several]


async def _claim_best(site: Part, requests: list[ClaimRequest], answers: list[list[Job]]) -> float | None:
    """Lease the best there are, so many at a time; if there is none, say when the first lease runs out."""
    first = requests[0]
    at = 0
    while at < len(requests):
        takers: list[tuple[int, int]] = []  # who, and how many
        room = _STEP
        for place in range(at, len(requests)):
            number = min(requests[place].limit - len(answers[place]), room)
            takers.append((place, number))
            room -= number
            if not room:
                break
        words: list[Any] = [site.told, _LEVEL[first.order], *names(first.queues), *names(first.tasks)]
        for place, number in takers:
            request = requests[place]
            words += (request.worker_id, request.token, request.lease_us or 0, number)
        now, more, lease, *found = await site.run(_CLAIM, *words)
        jobs = iter(list(map(values.job, found[::2], found[1::2])))
        for place, number in takers:
            answers[place] += [job for _, job in zip(range(number), jobs, strict=False)]
        if len(found) < 2 * sum(number for _, number in takers) and not more:
            return (int(lease) - int(now)) / SECOND if lease else None if found else math.inf
        while at < len(requests) and len(answers[at]) >= requests[at].limit:
            at += 1
    return None


# By id, or in an order that is not the lanes': picked here, and then leased if they are still there


async def _claim_picked(site: Part, request: ClaimRequest, answer: list[Job], random: Random) -> None:
    """Lease what was picked, in its order; past those that others were faster with, as far as there are any."""
    picked = await _pick(site, request, random)
    while picked and len(answer) < request.limit:
        members = picked[: min(_STEP, request.limit - len(answer))]
        _, left, *found = await site.run(
            _TAKE, site.told, request.worker_id, request.token, request.lease_us or 0, *members
        )
        answer += map(values.job, found[::2], found[1::2])
        picked = picked[len(members) - left :]


async def _pick(site: Part, request: ClaimRequest, random: Random) -> list[bytes]:
    """Name the places of all jobs that suit, in the order asked for."""
    if request.id is not None:
        return await _pick_one(site, request)
    places = [place for place in await _due(site, request) if place.left >= request.min_attempts_left]
    if request.order is Order.RANDOM:
        random.shuffle(places)
    elif request.order in _LEVEL:
        level = _LEVEL[request.order]
        places.sort(key=lambda place: (level * place.rank, place.due, place.seq))
    else:
        places.sort(key=lambda place: place.seq, reverse=request.order is Order.CREATED_AT_DESC)
    return [place.member for place in places]


async def _pick_one(site: Part, request: ClaimRequest) -> list[bytes]:
    now, [(seq, body, state)] = await reading.by_id(site, [request.id or ""])
    if not body:
        return []
    job = values.job(body, state)
    suits = (
        job.status is Status.PENDING
        and job.due_us <= now
        and job.attempts_left >= request.min_attempts_left
        and request.wants(job.queue, job.task)
    )
    return [values.pending(job, seq)] if suits else []


async def _due(site: Part, request: ClaimRequest) -> list[values.Place]:
    """Read the places of all due jobs that are asked for, a page at a time: this costs what is passed by."""
    found: list[values.Place] = []
    last = b""
    wish = [*names(request.queues), *names(request.tasks)]
    while True:
        _, *members = await site.run(_PAGE, site.told, _PAGE_SIZE, last, *wish)
        found += map(values.Place, members)
        if len(members) < _PAGE_SIZE:
            return found
        last = members[-1]
