"""Remove: finished jobs whose time is over, and what else is swept up now and then."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from dibs.domain import transitions
from dibs.domain.retry import SECOND
from dibs.stores.redis import values, writing
from dibs.stores.redis.reading import MOST_BYTES
from dibs.stores.redis.scripts import script

if TYPE_CHECKING:
    from dibs.stores.redis.part import Part

_FIND = script("prune_find")
_SWEEP = script("sweep")

_DAY = 86_400 * SECOND
_STEP = 100  # of a kind removed by one script
_EVENTS = 2_000  # removed by one script, with their jobs, unless a single job has more


async def prune(site: Part, limit: int) -> int:
    """Remove some finished jobs whose time is over, in small steps; say how many."""
    pruned = 0
    while pruned < limit:
        at, *answer = await site.run(_FIND, site.told, min(_STEP, limit - pruned), MOST_BYTES)
        found = list(zip(answer[::3], answer[1::3], answer[2::3], strict=True))
        if not found:
            return pruned
        now = int(at)
        jobs = [values.job(body, state) for _, body, state in found]
        upto = [total < _EVENTS for total in accumulate(job.events for job in jobs)].count(True)
        found, jobs = found[: upto + 1], jobs[: upto + 1]
        events = [transitions.prune(job, max(now, job.updated_us)) for job in jobs]
        pruned += await writing.remove(site, now, found, events)
    return pruned


async def sweep(site: Part) -> None:
    """Remove old tombstones and outlived documents, in small steps."""
    while await site.run(_SWEEP, site.told, _DAY, _STEP) == _STEP:
        pass
