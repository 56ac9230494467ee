"""Comparing two stores, job by job and event by event, in bounded memory.

Each job with its log becomes a number, and the numbers of all jobs whose ids fall into one bucket are added up, in
whatever order they come. Where the sums of a bucket differ, its jobs are read once more and looked at one by one.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import msgspec

from dibs.domain.audit import Item

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Sequence

    from dibs.domain.job import Event, Job
    from dibs.store import Store

STEP = 500
"""Jobs that are read at a time."""

_BUCKETS = 1 << 14
_MODULUS = 1 << 128
_encode = msgspec.msgpack.Encoder().encode


def fingerprint(job: Job, events: Sequence[Event]) -> int:
    """Make one number of all that there is to a job."""
    return int.from_bytes(blake2b(_encode((job, events)), digest_size=16).digest(), "big")


def _bucket(id: str) -> int:
    return crc32(id.encode()) % _BUCKETS


class Totals:
    """What the jobs of a store add up to."""

    def __init__(self) -> None:
        self._sums: dict[int, int] = {}
        self.jobs = self.events = 0
        self.newest_us = 0  # when the last of them was made

    def add(self, job: Job, events: Sequence[Event]) -> None:
        """Take one in."""
        place = _bucket(job.id)
        self._sums[place] = (self._sums.get(place, 0) + fingerprint(job, events)) % _MODULUS
        self.jobs += 1
        self.events += len(events)
        self.newest_us = max(self.newest_us, job.created_us)

    def unlike(self, other: Totals) -> frozenset[int]:
        """Name the buckets whose jobs do not add up to the same there."""
        return frozenset(place for place, total in self._sums.items() if other._sums.get(place) != total)


class Difference(NamedTuple):
    """Which jobs of one store another has not, and which it has otherwise."""

    missing: frozenset[str]
    unlike: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.missing or self.unlike)


async def pages(store: Store, cursor: str | None = None) -> AsyncIterator[tuple[list[Item], str | None]]:
    """Read a store from a place on: jobs with their logs, then what is left of others; and each time where to go on."""
    while True:
        page = await store.audit(cursor, STEP)
        yield page.items, page.cursor
        cursor = page.cursor
        if cursor is None:
            return


async def differences(
    source: Store, target: Store, buckets: Collection[int], wanted: Callable[[Job], bool]
) -> Difference:
    """Look one by one at the jobs of some buckets that are wanted."""
    prints: dict[str, int] = {}
    async for items, _ in pages(source):
        for job, events in items:
            if job is not None and _bucket(job.id) in buckets and wanted(job):
                prints[job.id] = fingerprint(job, events)
    missing = set(prints)
    unlike: set[str] = set()
    async for items, _ in pages(target):
        for job, events in items:
            if job is not None and job.id in prints:
                missing.discard(job.id)
                if prints[job.id] != fingerprint(job, events):
                    unlike.add(job.id)
    return Difference(frozenset(missing), frozenset(unlike))
