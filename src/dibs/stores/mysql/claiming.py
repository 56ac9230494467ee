"""Claim: which jobs, in which order, and the lease."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING

from dibs.domain.job import Order
from dibs.stores.mysql import rows
from dibs.stores.mysql.literals import Json, Step, step
from dibs.stores.mysql.looking import look, wished
from dibs.stores.mysql.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from dibs.domain.job import ClaimRequest, Job
    from dibs.stores.common.places import Places
    from dibs.stores.mysql.looking import Lane
    from dibs.stores.mysql.turn import Turn

_NOW = statement("clock_read")
_CANDIDATES = statement("claim_candidates")
_LOCK = statement("claim_lock")
_LOCK_SEQ = statement("claim_lock_seq")
_TAKE = statement("claim_take")
_LOG = statement("claim_log")
_READ = statement("job_by_seq")
_PICK_ONE = statement("claim_pick_one")
_PICK = {
    Order.CREATED_AT: statement("claim_pick_oldest"),
    Order.CREATED_AT_DESC: statement("claim_pick_newest"),
    Order.RANDOM: statement("claim_pick_random"),
}

_ROUNDS = 5  # how often a claim looks again that others were faster than

_Place = tuple[int, int, int]  # lane, due, seq


async def claim(
    turn: Turn, requests: Sequence[ClaimRequest], places: Places, random: Random, answers: list[list[Job]]
) -> None:
    """Serve each request in turn; those in a row that want the same are served together.

    ``answers`` is what each has got already, and is added to with each commit: if something fails after the first, it
    is asked again for the rest (test_what_was_leased_before_a_claim_is_tried_again_is_returned).
    """
    numbered = list(zip(requests, answers, strict=True))
    for (*_, order, id), alike in groupby(numbered, lambda each: _wish(each[0])):
        several, got = zip(*alike, strict=True)
        if id is None and order not in _PICK:
            await _claim_best(turn, several, got, places)
        else:
            for request, answer in zip(several, got, strict=True):
                await _claim_picked(turn, request, answer, places, random)


def _wish(request: ClaimRequest) -> tuple[object, ...]:
    return request.queues, request.tasks, request.min_attempts_left, request.order, request.id


async def _claim_best(
    turn: Turn, requests: Sequence[ClaimRequest], answers: Sequence[list[Job]], places: Places
) -> None:
    """Claim lane by lane, and once more for what others held, or took, that was counted on."""
    spare = 0  # candidates beyond what is wanted, as some of them are held by others
    for _ in range(_ROUNDS):
        left = sum(request.limit - len(got) for request, got in zip(requests, answers, strict=True))
        if not left:
            break
        now, lanes = await look(turn, requests[0], places)
        due = [lane for lane in lanes if lane.first <= now]
        shares, counted = await _shares(turn, requests[0], due, left + spare, now)
        if not shares:
            break
        taken, reached = await _take_best(turn, requests, answers, shares, now)
        places.reached(reached, now)
        if taken >= min(counted, left):
            break
        spare = 4 * spare + min(counted, left) - taken


async def _shares(
    turn: Turn, request: ClaimRequest, due: list[Lane], wanted: int, now: int
) -> tuple[dict[Lane, int], int]:
    """Say how many jobs to lock in each lane, and how many there seemed to be."""
    if not due:
        return {}, 0
    # One job of each lane would be enough; lanes that begin at the same moment as the last of those are as good as it.
    last = due[wanted - 1] if len(due) > wanted else due[-1]
    lanes = [lane for lane in due if lane[:2] <= last[:2]]
    if len(lanes) == 1:
        # Race: its first job is due, and may still be passed by: at the end of a neighbour's walk InnoDB locks the next
        # record, for a moment (test_lanes_are_removed_while_jobs_come_in).
        return {lanes[0]: wanted}, wanted if len(due) > 1 else 1
    enough = len(lanes) >= wanted  # then none is walked beyond the first job of the last
    found = await turn.run(
        *(
            step(
                _CANDIDATES,
                lane.id,
                *lane.bindings,
                last.first if enough and lane.level == last.level else now,
                request.min_attempts_left,
                wanted,
            )
            for lane in lanes
        )
    )
    ranked = sorted((lane.level, at, seq, n) for n, lane in enumerate(lanes) for _, at, seq in found[n])[:wanted]
    number = Counter(n for *_, n in ranked)
    return {lanes[n]: number[n] for n in sorted(number)}, len(ranked)


async def _take_best(
    turn: Turn, requests: Sequence[ClaimRequest], answers: Sequence[list[Job]], shares: dict[Lane, int], now: int
) -> tuple[int, list[_Place]]:
    """Lock each lane's share, and lease the best of them; say how many, and how far their lanes are empty now."""
    left = requests[0].min_attempts_left
    async with turn.transaction():
        found = await turn.run(
            *(step(_LOCK, lane.id, *lane.bindings, now, left, number) for lane, number in shares.items())
        )
        ranked = sorted(
            (lane.level, at, seq, lane.id) for lane, locked in zip(shares, found, strict=True) for _, at, seq in locked
        )
        taken = await _lease(turn, requests, answers, [seq for _, _, seq, _ in ranked], now)
    if left > 1:  # a filter passes jobs by, and then what was taken says nothing about the rest
        return taken, []
    return taken, [(lane, at, seq) for _, at, seq, lane in ranked[:taken]]


async def _lease(
    turn: Turn, requests: Sequence[ClaimRequest], answers: Sequence[list[Job]], locked: list[int], now: int
) -> int:
    """Lease locked jobs to requests, in order, and commit; say how many."""
    shares: list[list[int]] = []
    start = 0
    for request, got in zip(requests, answers, strict=True):
        end = start + request.limit - len(got)
        shares.append(locked[start:end])
        start = end
    taken = locked[:start]
    if not taken:
        return 0
    *_, found = await turn.commit(
        *(_take(request, share, now) for request, share in zip(requests, shares, strict=True) if share),
        step(_LOG, tuple(taken)),
        step(_READ, tuple(taken)),
        now=now,
    )
    jobs = {row[0]: rows.job(row) for row in found}
    for got, share in zip(answers, shares, strict=True):
        got += [jobs[seq] for seq in share]
    return len(taken)


def _take(request: ClaimRequest, seqs: list[int], now: int) -> Step:
    lease = request.lease_us or None
    return step(_TAKE, request.worker_id.encode(), request.token.encode(), now, lease, now, lease, now, tuple(seqs))


async def _claim_picked(turn: Turn, request: ClaimRequest, answer: list[Job], places: Places, random: Random) -> None:
    """Claim by id, or in an order that is not the lanes': pick without a lock, then lock what was picked."""
    spare = 0
    for _ in range(_ROUNDS):
        wanted = request.limit - len(answer)
        if not wanted:
            break
        now, picked = await _pick(turn, request, wanted + spare, places, random)
        if not picked:
            break
        async with turn.transaction():
            [found] = await turn.run(step(_LOCK_SEQ, Json(picked), now, request.min_attempts_left))
            free = {seq for (seq,) in found}
            locked = [seq for seq in picked if seq in free]
            taken = await _lease(turn, [request], [answer], locked, now)
        if taken >= min(len(picked), wanted) or request.id is not None:
            break
        spare = 4 * spare + min(len(picked), wanted) - taken


async def _pick(
    turn: Turn, request: ClaimRequest, number: int, places: Places, random: Random
) -> tuple[int, list[int]]:
    """Tell the time, and name the jobs that suit, in the order asked for."""
    if request.id is not None:
        [(now,)], found = await turn.run(
            step(_NOW, turn.told),
            step(_PICK_ONE, turn.told, request.id.encode(), *wished(request.queues), *wished(request.tasks)),
        )
    else:
        now, lanes = await look(turn, request, places)
        wish = (tuple(lane.id for lane in lanes if lane.first <= now), now, request.min_attempts_left)
        salt = (random.getrandbits(62),) if request.order is Order.RANDOM else ()
        found = await turn.fetch(_PICK[request.order], *wish, *salt, number)
    return now, [seq for (seq,) in found]
