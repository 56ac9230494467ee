"""Short ways to say what the suite says over and over: enqueue, claim, settle, and what came of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from dibs.broker.protocol import Ask, Broker, Ending
from dibs.domain.job import Error, Extension, Filter, Job, Outcome, Ref
from dibs.domain.newjob import NewJob
from dibs.domain.retry import Backoff, Duration, micros
from dibs.domain.transitions import Failure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from dibs.clock import FakeClock
    from dibs.store import Written

_REAL_SECONDS = 10.0  # how long "soon" may take on a slow machine before a test gives up
_TURNS = 20

AT_ONCE = Backoff(0, 0)
"""A back-off that is none, where a test is about something else."""


def new(task: str = "task", params: Any = None, **options: Any) -> NewJob:
    """Make a job to be enqueued."""
    return NewJob(task, params, **options)


async def enqueue(broker: Broker, task: str = "task", params: Any = None, **options: Any) -> Job:
    """Enqueue one job."""
    [job] = await broker.enqueue([new(task, params, **options)])
    return job


async def enqueue_some(broker: Broker, number: int, **options: Any) -> list[Job]:
    """Enqueue so many alike, in one batch."""
    return await broker.enqueue([new(params=place, **options) for place in range(number)])


async def claim(broker: Broker, worker_id: str = "worker", *, limit: int = 100, **asked: Any) -> list[Job]:
    """Claim as many as there are, up to a hundred."""
    return await broker.claim(Ask(worker_id=worker_id, limit=limit, **asked))


async def claim_one(broker: Broker, worker_id: str = "worker", **asked: Any) -> Job:
    """Claim one job, which must be there."""
    [job] = await claim(broker, worker_id, limit=1, **asked)
    return job


async def take(
    broker: Broker, worker_id: str = "worker", *, claim_lease: Duration | None = None, **options: Any
) -> Job:
    """Enqueue a job and claim that very one."""
    job = await enqueue(broker, **options)
    return await claim_one(broker, worker_id, id=job.id, lease=claim_lease)


def complete(job: Job, result: Any = None, *, ref: Ref | None = None) -> Ending:
    """End the claim that ``job`` was returned under well."""
    return Ending(ref or job.ref, "complete", result=result, job=job)


def fail(
    job: Job,
    *,
    retryable: bool = True,
    delay: Duration | None = None,
    error: Error | None = None,
    ref: Ref | None = None,
    told: bool = True,
) -> Ending:
    """End it badly; ``told=False``: the broker is given the claim's name alone, as by a shell script."""
    failure = Failure(error or Error("it broke", "ValueError"), retryable, None if delay is None else micros(delay))
    return Ending(ref or job.ref, "fail", failure=failure, job=job if told else None)


def release(job: Job, delay: Duration | None = None, *, ref: Ref | None = None) -> Ending:
    """Give it back."""
    return Ending(ref or job.ref, "release", delay=delay, job=job)


async def settle(broker: Broker, *endings: Ending) -> list[Outcome]:
    """Settle, and say what became of each."""
    return [settled.outcome for settled in await broker.settle(endings)]


async def settle_one(broker: Broker, ending: Ending) -> Written:
    """Settle one claim."""
    [settled] = await broker.settle([ending])
    return settled


async def extend(broker: Broker, *refs: Ref) -> list[Outcome]:
    """Keep claims."""
    return await broker.extend([Extension(ref) for ref in refs])


async def every_verb(broker: Broker, job: Job, ref: Ref | None = None) -> list[Outcome]:
    """Try all that a holder can do with a claim."""
    return [
        *await extend(broker, ref or job.ref),
        *await settle(broker, complete(job, ref=ref)),
        *await settle(broker, fail(job, ref=ref)),
        *await settle(broker, fail(job, ref=ref, told=False)),
        *await settle(broker, fail(job, ref=ref, retryable=False)),
        *await settle(broker, release(job, ref=ref)),
        *await settle(broker, release(job, 5, ref=ref)),
    ]


async def reap(broker: Broker) -> None:
    """Have the leases that ran out looked after: a claim that finds nothing does so."""
    assert await broker.claim(Ask(worker_id="reaper", queues=["no-such-queue"])) == []


async def read(broker: Broker, id: str) -> Job:
    """Read a job, which must be there."""
    job = await broker.get(id)
    assert job is not None, id
    return job


async def find(broker: Broker, *, limit: int = 100, cursor: str | None = None, **where: Any) -> list[Job]:
    """Read one page."""
    jobs, _ = await broker.find(Filter(**where), limit=limit, cursor=cursor)
    return jobs


async def events(broker: Broker, id: str) -> list[str]:
    """Name what has happened to a job."""
    return [event.event.value for event in await broker.log(id)]


def ids(jobs: Sequence[Job]) -> list[str]:
    """Name jobs, so that an order can be compared."""
    return [job.id for job in jobs]


async def a_few_turns() -> None:
    """Let what was started get going; a test must hold whether or not it did."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)


async def eventually(holds: Callable[[], Awaitable[bool]], clock: FakeClock, step: float = 0.1) -> None:
    """Let the fake time pass, a little at a time, until something holds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + _REAL_SECONDS
    while not await holds():
        assert loop.time() < end, f"does not hold after {_REAL_SECONDS} s"
        clock.advance(step)
        await asyncio.sleep(0.001)
