"""Cancel, redrive and purge: of one job, of several, or of all that match."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from dibs.broker.intake import check_change, check_ids, query_of
from dibs.broker.protocol import Changes
from dibs.domain.errors import NotFound, UniqueConflict, WrongState
from dibs.domain.job import FINISHED, Outcome, Status

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from dibs.domain.job import Filter
    from dibs.domain.transitions import Write
    from dibs.store import Store, Written

STEP = 500

_COUNTED = {
    Outcome.APPLIED: "changed",
    Outcome.REPEATED: "repeated",
    Outcome.LOST: "refused",
    Outcome.MISSING: "missing",
    Outcome.CONFLICT: "conflicts",
}


class Bulk:
    """Makes the same decision about many jobs."""

    def __init__(self, store: Store, write: Callable[[Sequence[Write]], Awaitable[list[Written]]]) -> None:
        self._store = store
        self._write = write

    async def change(
        self, ids: Sequence[str], where: Filter | None, decide: Callable[[str], Write], *, dry_run: bool
    ) -> Changes:
        """Change the finished jobs that are named, or those that match."""
        check_change(ids, where)
        if where is not None:
            return await self._matching(where, decide, dry_run=dry_run)
        if not dry_run:
            return await self.named(ids, decide)
        check_ids(ids)
        found = [job for job in await self._store.get(ids) if job is not None]
        matched = sum(job.status in FINISHED for job in found)
        return Changes(matched=matched, missing=len(ids) - len(found), dry_run=True)

    async def named(self, ids: Sequence[str], decide: Callable[[str], Write]) -> Changes:
        """Change the jobs that are named. If it is one alone, that it cannot be done is an error."""
        check_ids(ids)
        written = await self._write([decide(id) for id in ids])
        if len(ids) == 1:
            _raise_unless_done(ids[0], written[0])
        return _count(written)

    async def _matching(self, where: Filter, decide: Callable[[str], Write], *, dry_run: bool) -> Changes:
        """Go through the matches from the oldest on; none is met twice, and each is compared again when written."""
        if where.status is None:
            where = msgspec.structs.replace(where, status=Status.FAILED)
        query = query_of(where, limit=STEP, cursor=None, oldest_first=True)
        total = Changes(dry_run=dry_run)
        while True:
            jobs, cursor = await self._store.find(query)
            ids = [job.id for job in jobs if job.status in FINISHED]
            part = Changes(matched=len(ids)) if dry_run else _count(await self._write([decide(id) for id in ids]))
            total = _add(total, part)
            if cursor is None:
                return total
            query = msgspec.structs.replace(query, cursor=cursor)


def _raise_unless_done(id: str, written: Written) -> None:
    if written.outcome is Outcome.MISSING:
        raise NotFound(f"there is no job {id!r}")
    if written.outcome is Outcome.CONFLICT:
        raise UniqueConflict(f"job {id!r} cannot run again: a newer unfinished job has its unique key")
    if written.outcome is Outcome.LOST:
        finished = written.status is not None and written.status.finished
        hint = "It has ended already." if finished else "It has not ended: it runs when it is due, or cancel it first."
        raise WrongState(f"job {id!r} is {written.status}", hint=hint)


def _count(written: Sequence[Written]) -> Changes:
    counted = dict.fromkeys(_COUNTED.values(), 0)
    for answer in written:
        counted[_COUNTED[answer.outcome]] += 1
    return Changes(matched=len(written) - counted["missing"], dry_run=False, **counted)


def _add(one: Changes, other: Changes) -> Changes:
    return Changes(
        matched=one.matched + other.matched,
        changed=one.changed + other.changed,
        repeated=one.repeated + other.repeated,
        refused=one.refused + other.refused,
        missing=one.missing + other.missing,
        conflicts=one.conflicts + other.conflicts,
        dry_run=one.dry_run,
    )
