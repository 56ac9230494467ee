"""Reading jobs a page at a time, however many there are, and guessing what was meant where there is nothing."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING

from dibs.domain.errors import Forbidden, NotFound

if TYPE_CHECKING:
    from dibs.app import App
    from dibs.domain.job import Filter, Job

PAGE = 500
NEAR = 500
"""How many jobs, newest first, are looked at for an id that may have been meant."""
SHORTEST = 4
"""A beginning of an id that is shorter than this says nothing."""


def pages(app: App, where: Filter, *, limit: int | None = None, oldest_first: bool = False) -> Iterator[list[Job]]:
    """Read jobs, newest first unless asked, a page at a time."""
    cursor: str | None = None
    left = limit
    while left is None or left > 0:
        size = PAGE if left is None else min(PAGE, left)
        jobs, cursor = app.runtime.run(_page(app, where, size, cursor, oldest_first=oldest_first))
        yield jobs
        if cursor is None:
            return
        left = None if left is None else left - len(jobs)


async def _page(
    app: App, where: Filter, limit: int, cursor: str | None, *, oldest_first: bool
) -> tuple[list[Job], str | None]:
    return await app.runtime.broker().find(where, limit=limit, cursor=cursor, oldest_first=oldest_first)


def no_such_job(app: App, id: str) -> NotFound:
    """Say that there is no such job, and which one may have been meant: one of the newest."""
    from dibs.domain.job import Filter

    try:
        newest = [job.id for page in pages(app, Filter(), limit=NEAR) for job in page]
    except Forbidden:  # a key that may act need not be one that may look
        newest = []
    begun = [known for known in newest if len(id) >= SHORTEST and (known.startswith(id) or known.endswith(id))]
    near = begun[:3] or get_close_matches(id, newest, 1, 0.8)
    hint = f"Did you mean {' or '.join(near)}?" if near else None
    return NotFound(f"there is no job {id!r}", hint=hint)


def near_queue(app: App, queue: str) -> str | None:
    """Say what to do about a queue that has no jobs, if it is none; none if it is one."""
    try:
        known = [info.queue for info in app.sync.queues()]
    except Forbidden:
        return None
    if queue in known:
        return None
    near = get_close_matches(queue, known, 1)
    return f"there is no queue {queue!r}" + (f"; did you mean {near[0]}?" if near else "; `dibs queues` lists them")
