"""Complete, the quick way: what one request claimed, and nothing has touched since, ends in one statement.

Nearly every job ends like this. The domain judges the job as its claim left it, and the statement lets pass only rows
that are still exactly so; all others are read and judged anew by ``writing``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.domain import transitions
from dibs.domain.job import EventName, Job, Outcome
from dibs.store import Written
from dibs.stores.sqlite.rows import json_array, strip_token
from dibs.stores.sqlite.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.domain.transitions import Write
    from dibs.stores.sqlite.moment import Moment

_TAKE = statement("complete_take")
_TAKEN = statement("complete_taken")
_LOG = statement("complete_log")

_WORTHWHILE = 4  # fewer than this alike in a larger batch are no quicker this way


# What jobs must have in common to end in one statement: token, time of the claim, how long they are kept, result.
_Alike = tuple[str, int | None, int, bytes | None]


def complete(moment: Moment, writes: Sequence[Write]) -> dict[int, Job]:
    """Complete what can be completed the quick way; say which of the writes that was, and the jobs as they were."""
    if len({write.id for write in writes}) < len(writes):
        return {}  # a later write of a job must see what an earlier one left
    remembered = moment.recent.take([write.id for write in writes])
    groups: dict[_Alike, list[tuple[int, int, Job]]] = {}
    for place, (write, recent) in enumerate(zip(writes, remembered, strict=True)):
        if recent is None or write.event is not EventName.COMPLETED:
            continue
        seq, job = recent
        kept = job.keep.completed
        # A unique key that this sets free may be asked for by an earlier write: such a job waits for its turn.
        if kept > 0 and job.unique_key is None and transitions.judge(job, write, moment.now) is Outcome.APPLIED:
            alike = (job.lease_token, job.claimed_us, kept, write.result_json)
            groups.setdefault(alike, []).append((place, seq, job))
    done: dict[int, Job] = {}
    for alike, group in groups.items():
        if len(group) >= _WORTHWHILE or len(writes) < _WORTHWHILE:
            taken = _take(moment, alike, [seq for _, seq, _ in group])
            done.update((place, job) for place, seq, job in group if seq in taken)
    return done


def completed(job: Job, write: Write, now: int) -> Written:
    """Say what has become of one of those jobs."""
    return Written(Outcome.APPLIED, strip_token(transitions.apply(job, write, now)))


def _take(moment: Moment, alike: _Alike, seqs: list[int]) -> set[int]:
    token, claimed, kept, result = alike
    listed = json_array(seqs)
    moment.execute(_TAKE, (listed, moment.now, moment.now + kept, result, token, claimed))
    changes = moment.connection.changes()
    if changes != len(seqs):
        if not changes:
            return set()
        seqs = [seq for (seq,) in moment.rows(_TAKEN, listed)]
        listed = json_array(seqs)
    moment.touched = True
    moment.execute(_LOG, (listed,))
    return set(seqs)
