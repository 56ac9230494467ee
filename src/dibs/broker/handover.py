"""Handover: of two stores that have the same jobs, one at a time hands them out. It is done with paused queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from dibs.broker.maintenance import Maintenance
from dibs.domain.errors import WrongState
from dibs.domain.job import Query, Status
from dibs.domain.settings import Config
from dibs.store import PAUSED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dibs.clock import Clock
    from dibs.domain.job import Document, Job
    from dibs.store import Store

ACTOR = "dibs copy"

_LOOK = 0.2  # seconds between two looks at claims that are to end


class Handover:
    """From a source that hands out nothing any more, to a target that does not yet."""

    def __init__(self, source: Store, target: Store, clock: Clock, id: str) -> None:
        self._source, self._target, self._clock = source, target, clock
        self._mark = msgspec.json.encode({"by": ACTOR, "copy": id})
        self.queues: set[str] = set()  # that the source hands out nothing of
        self._held_back: set[str] = set()  # those that the target hands out nothing of, for now

    async def still(self, wait: float = 0.0) -> bool:
        """Let the source hand out nothing more, and see that no one holds anything; say whether it was so already."""
        still = True
        for info in await self._source.queues():
            if not info.paused:
                await self._pause(self._source, info.queue)
                still = False
            self.queues.add(info.queue)
        maintenance = Maintenance(self._source, self._clock, Config.of())
        end = self._clock.monotonic() + wait
        while True:
            await maintenance.reap()
            found, more = await self._source.find(Query(status=(Status.CLAIMED,), limit=100))
            if not found:
                return still
            if self._clock.monotonic() >= end:
                raise held(found, more=more is not None)
            await self._clock.sleep(_LOOK)

    async def hold_back(self, queues: Iterable[str]) -> None:
        """Let the target hand out nothing of these queues, before anything is put there."""
        for queue in set(queues) - self._held_back:
            await self._pause(self._target, queue)
            self._held_back.add(queue)

    async def begin(self) -> None:
        """Let the target hand out what is there, but for what users have paused."""
        for document in await self._target.documents(PAUSED):
            if is_mark(document):
                await self._target.put(document.name, None, expect=document.version)

    async def _pause(self, store: Store, queue: str) -> None:
        """Pause a queue; if a user has done so, it is left as it is."""
        await store.put(PAUSED + queue, self._mark, expect=0)


def is_mark(document: Document) -> bool:
    """Say whether a copy has paused this queue, and no user."""
    if not document.name.startswith(PAUSED):
        return False
    try:
        value = msgspec.json.decode(document.value)
    except msgspec.DecodeError:
        return False
    return isinstance(value, dict) and "copy" in value


def held(jobs: Sequence[Job], *, more: bool = False) -> WrongState:
    """Say who holds jobs that are to be copied, and what to do."""
    workers = sorted({job.worker_id or "" for job in jobs})
    some = ", ".join(workers[:3]) + (", …" if len(workers) > len(workers[:3]) else "")
    number = f"{len(jobs)}{' or more' if more else ''} {'job is' if len(jobs) == 1 and not more else 'jobs are'}"
    return WrongState(
        f"{number} claimed in FROM, such as {jobs[0].id}, by {some}: a claim cannot be copied",
        hint="FROM hands out nothing more. Let the workers end, then run this again, or add --wait 300.",
    )
