"""Whoever waits is woken by what other processes do. The bounds are generous: they tell waking from polling alone."""

from __future__ import annotations

import asyncio
import time

import pytest

import dibs
from tests.chaos.crew import Crew

NO_POLLING = 60.0
"""Seconds between a waiting claim's own looks: whoever is quicker was woken."""
SOON = 5.0


@pytest.fixture
def app(url: str) -> dibs.App:
    return dibs.App(url, poll_every=NO_POLLING, retry=dibs.Backoff(base=0.01, cap=0.01))


async def waiting(app: dibs.App, **options: object) -> asyncio.Task[dibs.Claim | None]:
    """Begin to wait, and come back when it is sure that the claim waits."""
    task = asyncio.create_task(app.claim("waiter", lease=60, wait=40, **options))  # type: ignore[arg-type]
    await asyncio.sleep(0.3)  # only so that it is asleep when it is woken; nothing depends on it
    assert not task.done()
    return task


async def test_a_job_from_another_process_wakes_a_waiting_claim(app: dibs.App, url: str, crew: Crew) -> None:
    async with app:
        producer = crew(url, "producer")
        assert producer.hear() == "ready"
        for _ in range(3):
            task = await waiting(app)
            began = time.monotonic()
            sent = await asyncio.to_thread(producer.ask, "enqueue")
            claim = await task
            assert claim is not None
            assert claim.id == sent["id"]
            assert time.monotonic() - began < SOON
            await claim.complete()


async def test_a_delayed_job_from_another_process_wakes_a_waiting_claim(app: dibs.App, url: str, crew: Crew) -> None:
    async with app:
        producer = crew(url, "producer")
        assert producer.hear() == "ready"
        task = await waiting(app)
        began = time.monotonic()
        await asyncio.to_thread(producer.ask, "enqueue", delay=1)
        claim = await task
        assert claim is not None
        assert 0.9 < time.monotonic() - began < 1 + SOON


async def test_a_release_in_another_process_wakes_a_waiting_claim(app: dibs.App, url: str, crew: Crew) -> None:
    async with app:
        holder = crew(url, "holder")
        assert holder.hear() == "ready"
        job = await app.enqueue("t")
        holder.ask("claim", lease=60)
        task = await waiting(app)
        began = time.monotonic()
        assert await asyncio.to_thread(holder.ask, "release", id=job.id) is None
        claim = await task
        assert claim is not None
        assert (claim.id, claim.fence) == (job.id, 2)
        assert time.monotonic() - began < SOON


async def test_a_lease_reaped_by_another_process_wakes_a_waiting_claim(app: dibs.App, url: str, crew: Crew) -> None:
    async with app:
        holder, reaper = crew(url, "holder"), crew(url, "reaper")
        assert [holder.hear(), reaper.hear()] == ["ready", "ready"]
        job = await app.enqueue("t")
        holder.ask("claim", lease=2)
        holder.die()
        task = await waiting(app)
        while "expired" not in [event.event for event in await app.log(job.id)]:
            await asyncio.to_thread(reaper.ask, "reap")
        began = time.monotonic()
        claim = await task
        assert claim is not None
        assert (claim.id, claim.fence) == (job.id, 2)
        assert time.monotonic() - began < SOON


async def test_a_waiting_claim_takes_over_by_itself(url: str, crew: Crew) -> None:
    """Nobody else is there to reap: the one who waits does, within five seconds of the lease's end."""
    async with dibs.App(url, retry=dibs.Backoff(base=0.01, cap=0.01)) as app:
        holder = crew(url, "holder")
        assert holder.hear() == "ready"
        job = await app.enqueue("t")
        holder.ask("claim", lease=1)
        holder.die()
        began = time.monotonic()
        claim = await app.claim("waiter", lease=60, wait=40)
        assert claim is not None
        assert (claim.id, claim.fence) == (job.id, 2)
        assert time.monotonic() - began < 1 + 5 + SOON


async def test_resuming_in_another_process_wakes_a_waiting_claim(app: dibs.App, url: str, crew: Crew) -> None:
    async with app:
        operator = crew(url, "operator")
        assert operator.hear() == "ready"
        await app.pause("default")
        job = await app.enqueue("t")
        task = await waiting(app)
        began = time.monotonic()
        await asyncio.to_thread(operator.ask, "resume", queue="default")
        claim = await task
        assert claim is not None
        assert claim.id == job.id
        assert time.monotonic() - began < SOON
