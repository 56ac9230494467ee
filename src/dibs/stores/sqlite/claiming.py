"""Claim: which jobs, in which order, and the lease."""

from __future__ import annotations

from contextlib import closing
from heapq import merge
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from dibs.domain.job import NEVER, ClaimRequest, Order
from dibs.stores.sqlite import rows
from dibs.stores.sqlite.desk import Later
from dibs.stores.sqlite.rows import Lane, json_array
from dibs.stores.sqlite.statements import statement

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

    from dibs.domain.job import Job
    from dibs.stores.sqlite.moment import Moment

LANE_ORDERS = (Order.PRIORITY, Order.PRIORITY_ASC)
"""Orders in which a claim goes from lane to lane, and corrects their bounds; in others it looks at all that is due."""

_LANES_DUE = statement("lane_due")
_LANES_DUE_ASC = statement("lane_due_asc")
_LANES_DUE_OF = statement("lane_due_of")
_LANE_SET = statement("lane_set")
_PICK = statement("claim_pick")
_PICK_LEFT = statement("claim_pick_left")
_PICK_BY_AGE = {Order.CREATED_AT: statement("claim_pick_oldest"), Order.CREATED_AT_DESC: statement("claim_pick_newest")}
_COUNT = statement("claim_count")
_PICK_PLACES = statement("claim_pick_places")
_FIND = statement("claim_find")
_TAKE = statement("claim_take")
_LOG = statement("claim_log")
_READ = statement("claim_read")


class _Open(NamedTuple):
    """A lane that may have due jobs."""

    lane: Lane
    next_due: int


def claim(moment: Moment, requests: Sequence[ClaimRequest]) -> Later[list[list[Job]]]:
    """Serve each request in turn; those that follow each other and want the same are picked for together."""
    taken: list[list[int]] = []
    for _, alike in groupby(requests, _wish):
        taken += _take(moment, list(alike))
    seqs = [seq for each in taken for seq in each]
    found = _read(moment, seqs) if seqs else {}
    lanes = {row[1]: moment.lanes[row[1]] for row in found.values()}
    now = moment.now

    def make() -> list[list[Job]]:
        return [
            [rows.claimed(found[seq], lanes, request.worker_id, request.token, now) for seq in each]
            for request, each in zip(requests, taken, strict=True)
        ]

    return Later(make, len(seqs))


def _wish(request: ClaimRequest) -> tuple[object, ...]:
    """Say which jobs a request wants, and which of them first."""
    return (request.id, request.queues, request.tasks, request.min_attempts_left, request.order)


def _take(moment: Moment, alike: list[ClaimRequest]) -> list[list[int]]:
    first, *more = alike
    if more and first.id is None:
        limit = sum(request.limit for request in alike)
        picked = _pick(moment, replace(first, limit=limit))
    else:  # of those who want the same one job, the first has it
        picked = _pick(moment, first)
    taken: list[list[int]] = []
    for request in alike:
        seqs, picked = picked[: request.limit], picked[request.limit :]
        taken.append(seqs)
    bindings = [
        (json_array(seqs), request.worker_id, request.token, moment.now, request.lease_us or None)
        for request, seqs in zip(alike, taken, strict=True)
        if seqs
    ]
    moment.executemany(_TAKE, bindings)
    return taken


def _read(moment: Moment, seqs: list[int]) -> dict[int, rows.Row]:
    """Log what was leased, and read it: afterwards is cheaper than RETURNING, which cannot join the payload."""
    moment.touched = True
    listed = json_array(seqs)
    moment.execute(_LOG, (listed,))
    found = {row[0]: row for row in moment.rows(_READ, listed)}
    moment.places.update([(row[2], seq) for seq, row in found.items()])
    return found


def _pick(moment: Moment, request: ClaimRequest) -> list[int]:
    if request.id is not None:
        return _pick_one(moment, request, request.id)
    if request.order in LANE_ORDERS:
        return _pick_best(moment, request)
    lanes = json_array([lane.id for level in _levels(moment, request) for lane, _ in level])
    left = request.min_attempts_left
    if request.order is Order.RANDOM:
        [(total,)] = moment.rows(_COUNT, lanes, moment.now, left)
        places = moment.random.sample(range(total), min(request.limit, total))
        found = moment.rows(_PICK_PLACES, lanes, moment.now, left, json_array(places))
        drawn = {place: seq for seq, place in found}
        return [drawn[place] for place in places]
    return [seq for (seq,) in moment.rows(_PICK_BY_AGE[request.order], lanes, moment.now, left, request.limit)]


def _pick_one(moment: Moment, request: ClaimRequest, id: str) -> list[int]:
    for seq, lane_id in moment.rows(_FIND, id, moment.now, request.min_attempts_left):
        lane = moment.lanes[lane_id]
        if lane.queue not in moment.paused and request.wants(lane.queue, lane.task):
            return [seq]
    return []


def _pick_best(moment: Moment, request: ClaimRequest) -> list[int]:
    """Take level by level, the best first: within one, lanes are merged by due time and enqueue order."""
    picked: list[int] = []
    with closing(_levels(moment, request)) as levels:
        for level in levels:
            picked += _merge(moment, level, request.limit - len(picked), request.min_attempts_left)
            if len(picked) == request.limit:
                break
    return picked


def _levels(moment: Moment, request: ClaimRequest) -> Generator[Iterable[_Open], None, None]:
    """Give each priority's lanes that may have due jobs, earliest bound first, no more of them than are asked for."""
    tasks = None if request.tasks is None else json_array(request.tasks)
    upwards = request.order is Order.PRIORITY_ASC
    if request.queues is not None:
        queues = json_array([queue for queue in request.queues if queue not in moment.paused])
        lanes = [_Open(Lane(*row[:4]), row[4]) for row in moment.rows(_LANES_DUE_OF, queues, moment.now, tasks)]
        lanes.sort(key=lambda found: (found.lane.priority if upwards else -found.lane.priority, found.next_due))
        yield from (level for _, level in groupby(lanes, _priority))
        return
    cursor = moment.execute(_LANES_DUE_ASC if upwards else _LANES_DUE, (moment.now, tasks))
    try:
        found = (_Open(Lane(*names), next_due) for *names, next_due in cursor)
        levels = groupby((each for each in found if each.lane.queue not in moment.paused), _priority)
        if upwards:
            yield from (reversed(list(level)) for _, level in levels)
        else:
            yield from (level for _, level in levels)
    finally:
        cursor.close()  # a walk that is left open would hold its snapshot, and so the WAL, beyond the commit


def _priority(found: _Open) -> int:
    return found.lane.priority


class _Seen(NamedTuple):
    """The first jobs of a lane: one more than are wanted, so that what comes next is known without another look."""

    lane: Lane
    next_due: int
    found: list[tuple[int, int]]  # due, seq


def _merge(moment: Moment, lanes: Iterable[_Open], limit: int, left: int) -> list[int]:
    """Pick the first ``limit`` due jobs of lanes of one priority, exactly by due time and then enqueue order."""
    looked: list[_Seen] = []
    due: list[tuple[int, int]] = []  # the best so far, sorted
    for lane, next_due in lanes:
        # Lanes come by their bound: once there is enough, one whose bound is later than the worst cannot improve it.
        if len(due) >= limit and next_due > due[limit - 1][0]:
            break
        sql = _PICK if left <= 1 else _PICK_LEFT
        found = moment.execute(sql, (lane.id, limit + 1) if left <= 1 else (lane.id, limit + 1, left)).fetchall()
        looked.append(_Seen(lane, next_due, found))
        ready = [job for job in found[:limit] if job[0] <= moment.now]
        due = list(merge(due, ready))[:limit] if due else ready
    if left <= 1:  # a filter hides jobs, and then what was seen says nothing about the lane
        _raise_bounds(moment, looked, due)
    return [seq for _, seq in due]


def _raise_bounds(moment: Moment, looked: list[_Seen], taken: list[tuple[int, int]]) -> None:
    """Let the next claim pass by the lanes that have nothing for it.

    A lane that goes on having due jobs keeps its old bound: it is too early, which is allowed, and a busy lane costs no
    write. One that was looked at in vain, or has run dry, gets the exact one.
    """
    last = taken[-1] if taken else (-1, -1)
    for lane, next_due, found in looked:
        rest = next((job for job in found if job > last), None)
        bound = NEVER if rest is None else rest[0]
        if bound != next_due and (bound > moment.now or (found and found[0] > last)):
            moment.execute(_LANE_SET, (lane.id, bound))
