"""A job that kills whoever takes it ends in the dead letter, and the others are done meanwhile."""

from __future__ import annotations

import asyncio
import time

import pytest

import dibs
from tests.chaos.crew import Actor, Crew

LEASE = 0.5
ATTEMPTS = 3


@pytest.mark.slow
@pytest.mark.parametrize("poison", ["exit", "oom", "hog"])
async def test_poison(poison: str, url: str, crew: Crew) -> None:
    async with dibs.App(url, retry=dibs.Backoff(base=0.05, cap=0.1), max_attempts=ATTEMPTS) as app:
        bad = await app.enqueue(poison)
        good = [job.id for job in await app.enqueue_many([dibs.NewJob("good", n) for n in range(30)])]
        assert await app.claim("overseer", queues=["nowhere"]) is None  # from now on this process looks after leases
        deaths = 0

        async def employ(name: str) -> None:
            """Keep one worker at work: whenever it dies, another comes."""
            nonlocal deaths
            while True:
                worker = crew(url, name)
                try:
                    await asyncio.to_thread(worker_at_work, worker)
                finally:
                    worker.die()
                deaths += 1

        began = time.monotonic()
        employer = asyncio.create_task(employ("worker"))
        ended = await app.wait(bad.id, timeout=50)
        took = time.monotonic() - began
        await asyncio.gather(*(app.wait(id, timeout=30) for id in good))
        employer.cancel()
        await asyncio.gather(employer, return_exceptions=True)

        assert (ended.status, ended.attempts, ended.fence) == ("failed", ATTEMPTS, ATTEMPTS)
        assert ended.error is not None
        assert ended.error.kind == ("MemoryError" if poison == "hog" else "lease_expired")
        assert deaths >= (0 if poison == "hog" else ATTEMPTS)
        assert took < 45
        for id in good:
            job = await app.get(id)
            assert job is not None
            assert job.status == "completed"
        assert (await app.verify()).ok


def worker_at_work(worker: Actor) -> None:
    """Return when it has died."""
    worker.tell("work", lease=LEASE)
    worker.rest()
