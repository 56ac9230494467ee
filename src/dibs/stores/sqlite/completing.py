"""Complete, the quick way: jobs that were claimed together end together, in one statement.

Nearly every job ends like this. The statement lets pass only what ``judge`` would let pass, and only where nothing else
depends on it; all others are read and judged one by one, by ``writing``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.domain.job import EventName, Outcome, Status
from dibs.store import Written
from dibs.stores.sqlite.rows import json_array
from dibs.stores.sqlite.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from dibs.domain.transitions import Write
    from dibs.stores.sqlite.moment import Moment

COMPLETED = Written(Outcome.APPLIED, Status.COMPLETED)

_COMPLETED = EventName.COMPLETED  # looked up once: a member of an enum by its name is dear
_FIND = statement("complete_find")
_TAKE = statement("complete_take")
_TAKEN = statement("complete_taken")
_LOG = statement("complete_log")

_WORTHWHILE = 4  # fewer than this alike in a larger batch are no quicker this way


# What jobs must have in common to end in one statement: token, fence, result.
_Alike = tuple[str, int, bytes | None]


def complete(moment: Moment, writes: Sequence[Write]) -> AbstractSet[str]:
    """Complete what can be completed the quick way; say which jobs that were."""
    groups: dict[_Alike, list[str]] = {}
    last, ids = None, list[str]()
    for write in writes:
        ref = write.ref
        if write.event is _COMPLETED and ref is not None:
            alike = (ref.token, ref.fence, write.result_json)
            if alike != last:  # mostly it is not
                last, ids = alike, groups.setdefault(alike, [])
            ids.append(write.id)
    if not groups or len({write.id for write in writes}) < len(writes):
        return frozenset()  # a later write of a job must see what an earlier one left
    done: set[str] = set()
    for alike, ids in groups.items():
        if len(ids) >= _WORTHWHILE or len(writes) < _WORTHWHILE:
            done.update(_take(moment, alike, ids))
    return done


def _take(moment: Moment, alike: _Alike, ids: list[str]) -> list[str]:
    token, fence, result = alike
    places = _places(moment, ids)
    listed = json_array(list(places))
    moment.execute(_TAKE, (listed, moment.now, result, token, fence))
    changes = moment.connection.changes()
    if changes != len(ids):
        if not changes:
            return []
        places = {seq: places[seq] for (seq,) in moment.rows(_TAKEN, listed)}
        listed = json_array(list(places))
    moment.touched = True
    moment.execute(_LOG, (listed,))
    return list(places.values())


def _places(moment: Moment, ids: list[str]) -> dict[int, str]:
    """Say where the jobs are: mostly as this process remembers it from claiming them."""
    known = moment.places
    places = {known.pop(id, 0): id for id in ids}
    if places.pop(0, None) is not None:
        missing = set(ids).difference(places.values())
        places.update((seq, id) for id, seq in moment.rows(_FIND, json_array(list(missing))))
    return places
