"""Claim: which jobs, in which order, and the lease."""

from __future__ import annotations

import math
from itertools import accumulate, groupby
from typing import TYPE_CHECKING

from dibs.domain.job import ClaimRequest, Order
from dibs.domain.retry import SECOND
from dibs.stores.common import rows
from dibs.stores.postgres.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from dibs.domain.job import Job
    from dibs.stores.common.places import Places
    from dibs.stores.common.rows import Row
    from dibs.stores.postgres.turn import Turn

_CLAIM = statement("claim")
_PICK_ONE = statement("claim_pick_one")
_PICK = {
    Order.CREATED_AT: statement("claim_pick_oldest"),
    Order.CREATED_AT_DESC: statement("claim_pick_newest"),
    Order.RANDOM: statement("claim_pick_random"),
}
_TAKE = statement("claim_take")

_LEVEL = {Order.PRIORITY: -1, Order.PRIORITY_ASC: 1}
_ROUNDS = 5  # how often a claim looks again that others were faster than


async def claim(
    turn: Turn, requests: Sequence[ClaimRequest], places: Places, random: Random, answers: list[list[Job]]
) -> None:
    """Serve each request in turn; those in a row that want the same are served together.

    ``answers`` is what each has got already, and is added to with each commit: if something fails after the first, that
    is not forgotten (test_what_was_leased_before_a_claim_failed_is_returned).
    """
    for (*_, order, id), alike in groupby(zip(requests, answers, strict=True), lambda each: _wish(each[0])):
        several, got = zip(*alike, strict=True)
        if id is None and order in _LEVEL:
            await _claim_best(turn, several, got, places)
        else:
            for request, answer in zip(several, got, strict=True):
                answer.extend(await _claim_picked(turn, request, request.limit - len(answer), random))


def _wish(request: ClaimRequest) -> tuple[object, ...]:
    return request.queues, request.tasks, request.min_attempts_left, request.order, request.id


async def _claim_best(
    turn: Turn, requests: Sequence[ClaimRequest], answers: Sequence[list[Job]], places: Places
) -> None:
    """Claim in one statement, and once more for what others held, or took, that it had counted on."""
    first = requests[0]
    spare = 0  # candidates beyond what is wanted, as some of them are held by others
    for _ in range(_ROUNDS):
        wanting = [at for at, request in enumerate(requests) if len(answers[at]) < request.limit]
        if not wanting:
            break
        lefts = [requests[at].limit - len(answers[at]) for at in wanting]
        starts = [1, *(1 + upto for upto in accumulate(lefts[:-1]))]
        found = await turn.fetch(
            _CLAIM,
            turn.told,
            None if first.queues is None else list(first.queues),
            None if first.tasks is None else list(first.tasks),
            _LEVEL[first.order],
            sum(lefts),
            first.min_attempts_left,
            *places.read(),
            starts,
            [requests[at].worker_id for at in wanting],
            [requests[at].token for at in wanting],
            [requests[at].lease_us or None for at in wanting],
            sum(lefts) + spare,
            turn.wants_lease,
        )
        now, candidates = found[0][0], found[0][1]
        if turn.wants_lease and found[0][3] is None:
            turn.first_lease = math.inf if found[0][28] is None else (found[0][28] - now) / SECOND
        taken = [] if found[0][3] is None else sorted(found, key=_rank)
        rest = iter(taken)
        for at, left in zip(wanting, lefts, strict=True):
            token = requests[at].token
            answers[at].extend(rows.claimed(row, token) for _, row in zip(range(left), rest, strict=False))
        if first.min_attempts_left <= 1:  # a filter passes jobs by, and then what was taken says nothing about the rest
            places.reached(((row[4], row[11], row[5]) for row in taken), now)
        if len(taken) >= min(candidates, sum(lefts)):
            break
        spare = 4 * spare + candidates - len(taken)


def _rank(row: Row) -> int:
    rank: int = row[3]
    return rank


async def _claim_picked(turn: Turn, request: ClaimRequest, limit: int, random: Random) -> list[Job]:
    """Claim in two steps of one transaction: by id, or in an order that is not the lanes'."""
    if not limit:
        return []
    wish = (
        turn.told,
        None if request.queues is None else list(request.queues),
        None if request.tasks is None else list(request.tasks),
        request.min_attempts_left,
    )
    async with turn.transaction():
        if request.id is not None:
            picked = await turn.fetch(_PICK_ONE, *wish, request.id)
        elif request.order is Order.RANDOM:
            picked = await turn.fetch(_PICK[request.order], *wish, limit, random.getrandbits(62))
        else:
            picked = await turn.fetch(_PICK[request.order], *wish, limit)
        seqs = [row[0] for row in picked]
        if not seqs:
            return []
        taken = await turn.fetch(_TAKE, turn.told, seqs, request.worker_id, request.token, request.lease_us or None)
    return [rows.claimed(row, request.token) for row in sorted(taken, key=_rank)]
