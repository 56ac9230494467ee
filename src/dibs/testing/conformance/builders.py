"""Short ways to say what the suite says over and over: a job, a request, a settlement, and what came of it."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from dibs.domain import transitions
from dibs.domain.job import ClaimRequest, Draft, Error, Job, Keep, Order, Outcome, Query, Terms
from dibs.domain.retry import Backoff, Duration, micros
from dibs.domain.transitions import Failure, Write
from dibs.store import PAUSED, Refusal, Store, Written

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from dibs.clock import FakeClock

T = TypeVar("T")

US = 1e-6
"""One microsecond in seconds: the smallest step of a store's clock."""

DAY = 86_400
"""Seconds."""

FOREVER = 3600.0
"""Seconds that no test lets pass by accident."""

_REAL_SECONDS = 10.0  # how long "soon" may take on a slow machine before a test gives up

_count = count(1)
_random = Random(0)


def new_job(
    id: str | None = None,
    *,
    queue: str = "default",
    task: str = "task",
    params: bytes = b"{}",
    priority: int = 0,
    max_attempts: int = 3,
    delay: Duration | None = 0,
    scheduled_us: int | None = None,
    lease: Duration = 300,
    keep: Duration | None = None,
    retry: Backoff | None = None,
    tags: tuple[str, ...] = (),
    idempotency_key: str | None = None,
    unique_key: str | None = None,
    batch_id: str | None = None,
) -> Draft:
    """Make a draft. ``delay=None`` holds it back; ``keep`` is how long it is kept, however it ends."""
    kept = Keep(DAY * 1_000_000, 30 * DAY * 1_000_000, DAY * 1_000_000)
    if keep is not None:
        kept = Keep(micros(keep), micros(keep), micros(keep))
    return Draft(
        id or f"job-{next(_count)}",
        queue,
        task,
        params,
        priority,
        max_attempts,
        Terms(retry=retry or Backoff(), lease_us=micros(lease), tags=tags),
        kept,
        delay_us=None if delay is None else micros(delay),
        scheduled_us=scheduled_us,
        idempotency_key=idempotency_key,
        unique_key=unique_key,
        batch_id=batch_id,
    )


def named(field: str, name: str, **options: Any) -> Draft:
    """Make one with this id, idempotency_key or unique_key."""
    options[field] = name
    return new_job(**options)


def new_jobs(number: int, **options: Any) -> list[Draft]:
    """Make so many alike."""
    return [new_job(**options) for _ in range(number)]


def one(
    worker_id: str = "worker",
    *,
    limit: int = 1,
    under: str | None = None,
    id: str | None = None,
    queues: tuple[str, ...] | None = None,
    tasks: tuple[str, ...] | None = None,
    min_attempts_left: int = 1,
    order: Order = Order.PRIORITY,
    lease: Duration | None = None,
) -> ClaimRequest:
    """Ask for one job, or up to ``limit``, under a lease token of its own."""
    return ClaimRequest(
        worker_id,
        under or f"token-{next(_count)}",
        limit,
        id,
        queues,
        tasks,
        min_attempts_left,
        order,
        None if lease is None else micros(lease),
    )


async def enqueue(store: Store, *drafts: Draft) -> list[Job]:
    """Insert one group that must be taken."""
    [group] = await store.insert([drafts])
    assert not isinstance(group, Refusal), group
    return group


async def refused(store: Store, *drafts: Draft) -> Refusal:
    """Insert one group that must be refused."""
    [group] = await store.insert([drafts])
    assert isinstance(group, Refusal), group
    return group


async def claim(store: Store, worker_id: str = "worker", *, limit: int = 100, **asked: Any) -> list[Job]:
    """Claim by one request, as many as there are up to a hundred."""
    [jobs] = await store.claim([one(worker_id, limit=limit, **asked)])
    return jobs


async def claim_one(store: Store, worker_id: str = "worker", **asked: Any) -> Job:
    """Claim one job, which must be there."""
    [job] = await claim(store, worker_id, limit=1, **asked)
    return job


async def enqueue_and_claim(store: Store, draft: Draft | None = None, **asked: Any) -> Job:
    """Insert a job and claim that very one."""
    [job] = await enqueue(store, draft or new_job())
    return await claim_one(store, id=job.id, **asked)


def completed(job: Job, result: bytes | None = None) -> Write:
    """End the claim that ``job`` was returned under well."""
    return transitions.complete(job.ref, result)


def failed(job: Job, *, retryable: bool = True, delay: Duration | None = 0, error: Error | None = None) -> Write:
    """End it badly; another attempt is due after ``delay`` (none: after the job's own back-off)."""
    failure = Failure(error or Error("it broke", "ValueError"), retryable, None if delay is None else micros(delay))
    return transitions.fail(job, job.ref, failure, _random)


def released(job: Job, delay: Duration | None = None) -> Write:
    """Give it back."""
    return transitions.release(job.ref, None if delay is None else micros(delay))


def expired(job: Job, clock: FakeClock) -> Write:
    """Take it away, if its lease has run out."""
    return transitions.expire(job, clock.random)


async def settle(store: Store, *writes: Write) -> list[Outcome]:
    """Write, and say what became of each."""
    return [written.outcome for written in await store.write(writes)]


async def reap(store: Store, clock: FakeClock, limit: int = 100) -> list[Written]:
    """Take away every claim whose lease has run out."""
    return await store.write([expired(job, clock) for job in await store.expired(limit)])


async def read(store: Store, id: str) -> Job:
    """Read a job, which must be there."""
    [job] = await store.get([id])
    assert job is not None, id
    return job


async def find(store: Store, **query: Any) -> list[Job]:
    """Read the first page."""
    jobs, _ = await store.find(Query(**query))
    return jobs


async def pause(store: Store, queue: str) -> None:
    """Let a queue hand out nothing."""
    assert await store.put(PAUSED + queue, b"{}")


async def resume(store: Store, queue: str) -> None:
    """Let it go on."""
    assert await store.put(PAUSED + queue, None)


def ids(jobs: Sequence[Job | Draft | None]) -> list[str]:
    """Name jobs, so that an order can be compared."""
    return [job.id for job in jobs if job is not None]


async def soon(running: asyncio.Task[T], clock: FakeClock) -> T:
    """Let the real and the fake time pass, a little of each at a time, until something has ended."""
    loop = asyncio.get_running_loop()
    end = loop.time() + _REAL_SECONDS
    while not running.done():
        assert loop.time() < end, f"still waiting after {_REAL_SECONDS} s"
        await asyncio.wait({running}, timeout=0.02)
        clock.advance(0.02)
    return running.result()


async def in_threads(functions: Sequence[Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
    """Run each in a thread of its own, on an event loop of its own, all at once."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(len(functions)) as pool:
        running = [loop.run_in_executor(pool, _run, function) for function in functions]
        return list(await asyncio.gather(*running))


def _run(function: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return asyncio.run(function())
