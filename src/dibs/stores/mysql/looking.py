"""Lanes: which of them have work for a request, and when. A claim looks before it locks, and so do those who wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dibs.domain.job import NEVER, Order
from dibs.stores.mysql.literals import step
from dibs.stores.mysql.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.domain.job import ClaimRequest
    from dibs.stores.common.places import Places
    from dibs.stores.mysql.turn import Turn

_LANES = statement("claim_lanes")
_FIRST = statement("claim_first")

START = (-1, -1)
"""The place that a lane begins at."""


class Lane(NamedTuple):
    """A lane that has pending jobs, in the order in which lanes are served."""

    level: int  # the lower, the earlier
    first: int  # when its first job is due
    id: int
    place: tuple[int, int]  # up to where it is known to be empty: due, seq

    @property
    def bindings(self) -> tuple[Any, ...]:
        """What says where to begin: due, seq, due."""
        return (*self.place, self.place[0])


def wished(names: Sequence[str] | None) -> tuple[bool, tuple[bytes, ...]]:
    """Say whether any name will do, and else which."""
    return names is None, tuple(name.encode() for name in names or ())


async def look(turn: Turn, request: ClaimRequest, places: Places) -> tuple[int, list[Lane]]:
    """Tell the time, if there are lanes, and list the wanted ones that have pending jobs, the best first."""
    known = {lane: (due, seq) for lane, due, seq in zip(*places.read(), strict=True)}
    left = request.min_attempts_left
    lanes, *firsts = await turn.run(
        step(_LANES, tuple(known), left, turn.told, *wished(request.queues), *wished(request.tasks)),
        *(step(_FIRST, lane, *place, place[0], left) for lane, place in known.items()),
    )
    first = {row[0][0]: row[0][1] for row in firsts if row}
    sign = 1 if request.order is Order.PRIORITY_ASC else -1
    found = [
        Lane(sign * priority, due, id, known.get(id, START))
        for _, id, priority, seen in lanes
        if (due := first.get(id) if id in known else seen) is not None
    ]
    return lanes[0][0] if lanes else 0, sorted(found)


async def peek(turn: Turn, request: ClaimRequest, places: Places) -> tuple[int, int]:
    """Say when the request may find something, and what time it is."""
    now, lanes = await look(turn, request, places)
    return min((lane.first for lane in lanes), default=NEVER), now
