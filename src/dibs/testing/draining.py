"""``drain``: run what was enqueued, here and now, as a worker would."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from dibs.clock import FakeClock
from dibs.domain.errors import NotSupported
from dibs.domain.job import NEVER, Job, Status
from dibs.domain.retry import SECOND
from dibs.worker.handling import Handlers
from dibs.worker.settling import Settling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.app import App
    from dibs.claim import Claim

WORKER = "drain"
MOST = 1000
"""Runs of one job: one that is due again each time would never end."""


async def drain(app: App, *, queues: Sequence[str] | None = None, later: bool = False) -> list[Job]:
    """Run every job that is due and whose task this app has, and what those enqueue, until there is none.

    Handlers run one after the other on this loop, plain functions too; what they raise is settled as ever, and not
    raised here. ``later``: the fake clock is moved to whatever comes due later, until there is none of that either. The
    answer has a job for each run, as it stood afterwards.
    """
    if later and not isinstance(app.runtime.clock, FakeClock):
        raise NotSupported("drain(later=True) moves the clock, and this one is real", hint="Do it within use(app).")
    handlers, runs, times = Handlers(app.tasks, None, layers=app.layers), list[Job](), Counter[str]()
    names = sorted(app.tasks)
    while names:
        claim = await _claim(app, queues, names)
        if claim is not None:
            await _run(app, handlers, claim)
            job = await app.get(claim.id)
            if job is not None:
                runs.append(job)
            times[claim.id] += 1
            if times[claim.id] > MOST:
                raise RecursionError(f"job {claim.id!r} of task {claim.task!r} was run {MOST} times, and is due again")
        elif not (later and await _move(app, queues)):
            break
    return runs


async def _run(app: App, handlers: Handlers, claim: Claim) -> None:
    """Run one job: a task of its own, as in a worker, so that what it leaves in its context is not the caller's."""
    settling = Settling(app.runtime, lambda _: None)
    running = asyncio.create_task(handlers.handle(claim, settling.add))
    try:
        await asyncio.wait([running])
    finally:
        if not running.done():  # the caller was cancelled
            running.cancel()
            await asyncio.wait([running])
        await settling.close()
    running.result()


async def _claim(app: App, queues: Sequence[str] | None, names: list[str]) -> Claim | None:
    """Claim; if there is nothing, see whether a batch has ended, and claim what it ends with."""
    claim = await app.claim(WORKER, queues=queues, tasks=names)
    if claim is None:
        await app.runtime.broker().end_batches()
        claim = await app.claim(WORKER, queues=queues, tasks=names)
    return claim


async def _move(app: App, queues: Sequence[str] | None) -> bool:
    """Move the clock to when the next job is due; say whether there is one."""
    clock = app.runtime.clock
    assert isinstance(clock, FakeClock)
    dues = [
        job.due_us
        async for job in app.find(status=Status.PENDING)
        if clock.now() < job.due_us < NEVER and job.task in app.tasks and (queues is None or job.queue in queues)
    ]
    if dues:
        clock.advance((min(dues) - clock.now()) / SECOND)
    return bool(dues)
