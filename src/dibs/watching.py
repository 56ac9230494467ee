"""Following one job to its end, by looking again: often at first, then less and less."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from dibs.domain.errors import NotFound
from dibs.domain.job import EventName

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dibs.domain.job import Job
    from dibs.runtime import Runtime

SHORTEST = 0.005
LONGEST = 0.5


async def watch(runtime: Runtime, id: str, timeout: float | None = None) -> AsyncIterator[Job]:
    """Yield the job at each change of status or progress, the finished job last; end early once time is up."""
    clock = runtime.clock
    end = None if timeout is None else clock.monotonic() + timeout
    seen: Job | None = None
    nap = SHORTEST
    while True:
        job = await runtime.broker().get(id) or await _last_words(runtime, id, seen)
        if seen is None or _told(job) != _told(seen):
            yield job
            nap = SHORTEST
        if job.status.finished:
            return
        seen = job
        left = LONGEST if end is None else end - clock.monotonic()
        if left <= 0:
            return
        await clock.sleep(min(nap, left))
        nap = min(LONGEST, nap * 1.5)


async def wait(runtime: Runtime, id: str, timeout: float | None) -> Job:
    """Return the job once it has ended."""
    async for job in watch(runtime, id, timeout):
        if job.status.finished:
            return job
    raise TimeoutError(f"job {id!r} did not end within {timeout:g} seconds")


def _told(job: Job) -> tuple[object, ...]:
    return job.status, job.progress, job.progress_note, job.fence


async def _last_words(runtime: Runtime, id: str, seen: Job | None) -> Job:
    """Race: a job that is kept for no time is gone before anyone sees its end; its last event still tells it."""
    for event in reversed(await runtime.broker().log(id)):
        if event.event is EventName.PRUNED and event.from_ is not None and event.from_.finished:
            if seen is None:
                hint = "To wait for a job, or to watch it, give it a retention above zero."
                raise NotFound(f"job {id!r} has ended ({event.from_}) and is no longer kept", hint=hint)
            changes = {"status": event.from_, "fence": event.fence, "attempts": event.attempts}
            return msgspec.structs.replace(seen, **changes, updated_us=event.at_us, completed_us=event.at_us)
    raise NotFound(f"there is no job {id!r}")
