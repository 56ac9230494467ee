"""Batches as users write them: ``async with app.batch(on_end=report) as batch``."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from dibs.domain.batch import check_batch_id
from dibs.domain.checks import seconds
from dibs.domain.job import Filter, Status
from dibs.domain.settings import MAX_BATCH
from dibs.watching import LONGEST, SHORTEST

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType
    from typing import Self

    from dibs.app import App
    from dibs.domain.batch import BatchInfo
    from dibs.domain.newjob import NewJob
    from dibs.domain.retry import Duration

_LEFT = [Status.PENDING, Status.CLAIMED]


class Batch:
    """Jobs that are enqueued as one; ``id`` is what they share.

    ``async with batch`` seals it on leaving: from then on, the job of ``on_end`` is enqueued once all of them have
    ended, however they did. Left by an exception, it stays open.
    """

    def __init__(self, app: App, id: str, on_end: NewJob | None) -> None:
        check_batch_id(id)
        self.id = id
        self._app = app
        self._on_end = on_end

    async def add(self, jobs: Iterable[NewJob]) -> int:
        """Enqueue jobs as part of it, a thousand at a time; say how many. Those before one that is refused are in."""
        added, waiting = 0, iter(jobs)
        while some := list(islice(waiting, MAX_BATCH)):
            added += len(await self._app.enqueue_many([msgspec.structs.replace(job, batch=self.id) for job in some]))
        return added

    async def seal(self) -> None:
        """Say that no more jobs join it but those that its own jobs add. To do so twice is no error."""
        if self._on_end is not None:
            [last] = self._app.traced([self._on_end])
            await self._app.runtime.broker().seal(self.id, last)

    async def progress(self) -> BatchInfo:
        """Count its jobs by status."""
        return await self._app.runtime.broker().batch(self.id)

    async def wait(self, timeout: Duration | None = None) -> BatchInfo:
        """Return once all of its jobs have ended, sealed or not; look often at first, then less and less."""
        clock = self._app.runtime.clock
        end = None if timeout is None else clock.monotonic() + seconds("timeout", timeout)
        nap = SHORTEST
        while await self._left():
            left = LONGEST if end is None else end - clock.monotonic()
            if left <= 0:
                raise TimeoutError(f"batch {self.id!r} did not end in time")
            await clock.sleep(min(nap, left))
            nap = min(LONGEST, nap * 1.5)
        return await self.progress()

    async def _left(self) -> bool:
        where = Filter(batch_id=self.id, status=_LEFT)
        jobs, _ = await self._app.runtime.broker().find(where, limit=1, cursor=None)
        return bool(jobs)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            await self.seal()

    def __repr__(self) -> str:
        return f"<Batch {self.id!r}>"
