"""The worlds that are searched: two or three workers, one or two jobs, a crash, a reaper, a cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.broker.protocol import Ask, Ending
from dibs.domain.job import Error, Extension
from dibs.domain.newjob import NewJob
from dibs.domain.retry import Backoff
from dibs.domain.transitions import Failure
from dibs.testing.worlds.world import LEASE, World

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from dibs.broker.protocol import Broker

    Script = Callable[[Broker], Coroutine[Any, Any, None]]


def worker(name: str, verb: str, *, extends: bool = False, limit: int = 1, turns: int = 1) -> Script:
    """Claim, perhaps extend, and settle, so many times."""

    async def script(broker: Broker) -> None:
        for _ in range(turns):
            jobs = await broker.claim(Ask(worker_id=name, limit=limit))
            if jobs and extends:
                await broker.extend([Extension(job.ref) for job in jobs])
            if jobs:
                await broker.settle([_ending(job, verb) for job in jobs])

    return script


def _ending(job: Any, verb: str) -> Ending:
    failure = Failure(Error("it broke")) if verb == "fail" else None
    return Ending(job.ref, verb, failure=failure, job=job)


def reaper() -> Script:
    """Take over what ran out, as maintenance does: look, and then write."""

    async def script(broker: Broker) -> None:
        await broker._maintenance.reap()  # type: ignore[attr-defined]  # noqa: SLF001 - that one step of it

    return script


def operator(verb: str, id: str) -> Script:
    """Cancel a job, or run it again."""

    async def script(broker: Broker) -> None:
        await (broker.cancel([id], by="ann") if verb == "cancel" else broker.redrive([id], by="ann"))

    return script


def jobs(number: int, **options: Any) -> tuple[NewJob, ...]:
    """Make so many jobs."""
    return tuple(
        NewJob("task", {"n": n}, id=f"job-{n}", lease=LEASE, retry=Backoff(0, 0), **options) for n in range(number)
    )


WORLDS = (
    World(
        name="two workers, one job, a crash, a reaper",
        jobs=jobs(1, max_attempts=2),
        actors={
            "first": worker("first", "complete", extends=True),
            "second": worker("second", "complete"),
            "reaper": reaper(),
        },
        crashes=1,
        ticks=2,
    ),
    World(
        name="two workers, one job, a cancel, a redrive, a reaper",
        jobs=jobs(1, max_attempts=1),
        actors={
            "first": worker("first", "complete"),
            "second": worker("second", "fail"),
            "cancel": operator("cancel", "job-0"),
            "redrive": operator("redrive", "job-0"),
            "reaper": reaper(),
        },
    ),
    World(
        name="two workers that give back and fail, two jobs, a crash",
        jobs=jobs(2, max_attempts=2),
        actors={"first": worker("first", "release", turns=2), "second": worker("second", "fail", limit=2, turns=2)},
        crashes=1,
    ),
    World(
        name="three workers, two jobs, a reaper",
        jobs=jobs(2, max_attempts=2),
        actors={
            "first": worker("first", "complete", extends=True),
            "second": worker("second", "fail"),
            "third": worker("third", "release"),
            "reaper": reaper(),
        },
    ),
    World(
        name="two workers, one job, a crash, a cancel, a reaper",
        jobs=jobs(1, max_attempts=2),
        actors={
            "first": worker("first", "complete"),
            "second": worker("second", "fail"),
            "cancel": operator("cancel", "job-0"),
            "reaper": reaper(),
        },
        crashes=1,
    ),
)
"""Searched to the end at every change."""

LARGE = (
    World(
        name="three workers, one job, a crash, a cancel, a reaper",
        jobs=jobs(1, max_attempts=2),
        actors={
            "first": worker("first", "complete"),
            "second": worker("second", "complete"),
            "third": worker("third", "fail"),
            "cancel": operator("cancel", "job-0"),
            "reaper": reaper(),
        },
        crashes=1,
    ),
)
"""Searched to the end now and then: a few minutes."""
