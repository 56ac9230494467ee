"""Who may not be taken over: one that is only busy. Who may: tests/failures/test_held.py."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

import dibs
from tests.chaos.crew import Crew

QUICK = dibs.Backoff(base=0.01, cap=0.01)


LEASE = 1.0
LONG = 3.5 * LEASE


@pytest.mark.slow
@pytest.mark.serial
@pytest.mark.parametrize("how", ["sleep", "burn"])
async def test_a_handler_that_blocks_its_loop_is_not_taken_over(how: str, url: str, crew: Crew) -> None:
    async with dibs.App(url, retry=QUICK, reap_every=0.2) as app:
        busy = crew(url, "busy")
        assert busy.hear() == "ready"
        job = await app.enqueue("t")
        busy.ask("claim", lease=LEASE)
        began = time.monotonic()
        assert busy.ask("handle", id=job.id, how=how, seconds=LONG) == "handling"

        # Someone wants it, all the time: it waits for the job, and reaps whatever can be reaped.
        rival = asyncio.create_task(app.claim("rival", lease=60, wait=LONG - 0.5))
        assert await rival is None
        assert await asyncio.to_thread(busy.hear) is None
        assert time.monotonic() - began >= LONG

        ended = await app.get(job.id)
        assert ended is not None
        assert (ended.status, ended.fence, ended.attempts, ended.worker_id) == ("completed", 1, 1, "busy")
        assert [str(event.event) for event in await app.log(job.id)] == ["enqueued", "claimed", "completed"]


@pytest.mark.slow
@pytest.mark.serial
@pytest.mark.parametrize("how", ["sleep", "burn"])
async def test_a_thread_that_blocks_is_not_taken_over_in_memory(how: str) -> None:
    """The same with everyone in one process: the one who is busy, the keeper, and the rival."""
    async with dibs.App("memory://", retry=QUICK, reap_every=0.2) as app:
        job = await app.enqueue("t")
        held = threading.Event()

        async def handle() -> None:
            claim = await app.claim("busy", lease=LEASE)
            assert claim is not None
            async with claim:
                held.set()
                end = time.monotonic() + LONG
                while time.monotonic() < end:
                    if how == "sleep":
                        time.sleep(LONG)  # noqa: ASYNC251 - that is the mistake
                    else:
                        sum(range(1000))

        handler = asyncio.create_task(asyncio.to_thread(asyncio.run, handle()))
        await asyncio.to_thread(held.wait, 10)
        assert await app.claim("rival", lease=60, wait=LONG - 1) is None
        await handler

        ended = await app.get(job.id)
        assert ended is not None
        assert (ended.status, ended.fence, ended.attempts, ended.worker_id) == ("completed", 1, 1, "busy")
