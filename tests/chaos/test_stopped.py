"""Who may be taken over, and who may not: a process that stands still, one that came back, one that is only busy."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from pathlib import Path

import pytest

import dibs
from tests.chaos.crew import Crew
from tests.chaos.histories import assert_clean, recording

QUICK = dibs.Backoff(base=0.01, cap=0.01)


async def test_a_stopped_process_is_taken_over_and_refused(url: str, tmp_path: Path, crew: Crew) -> None:
    with recording(tmp_path / "test.jsonl", "test"):
        async with dibs.App(url, retry=QUICK) as app:
            stopped = crew(url, "stopped", tmp_path / "stopped.jsonl")
            assert stopped.hear() == "ready"
            job = await app.enqueue("t")
            claim = stopped.ask("claim", lease=1)
            assert claim["fence"] == 1
            assert stopped.ask("enter", id=job.id) is None

            stopped.stop()
            taken = await app.claim("second", lease=60, wait=20)
            assert taken is not None
            assert (taken.id, taken.fence) == (job.id, 2)
            before, log = await app.get(job.id), await app.log(job.id)

            stopped.send(signal.SIGCONT)
            for verb in ("extend", "progress", "complete", "fail", "release", "leave"):
                assert stopped.ask(verb, id=job.id) == "lease_lost", verb
            assert stopped.ask("lost", id=job.id) is True
            assert await app.get(job.id) == before
            assert await app.log(job.id) == log

            await taken.complete("by the second")
            for verb in ("extend", "complete", "fail", "release"):
                assert stopped.ask(verb, id=job.id) == "lease_lost", verb
            ended = await app.get(job.id)
            assert ended is not None
            assert (ended.status, ended.result, ended.worker_id) == ("completed", "by the second", "second")
            assert (await app.verify()).ok
        stopped.end()
    await assert_clean(url, tmp_path)


async def test_a_restarted_worker_holds_nothing_of_its_predecessor(url: str, crew: Crew) -> None:
    async with dibs.App(url, retry=QUICK) as app:
        first = crew(url, "same-name")
        assert first.hear() == "ready"
        job = await app.enqueue("t")
        claim = first.ask("claim", lease=2)
        first.die()

        again = crew(url, "same-name")
        assert again.hear() == "ready"
        held = await app.get(job.id)
        assert held is not None
        if held.status == "claimed":  # else the machine was so slow that the lease is over already
            assert held.worker_id == "same-name"
            again.ask("adopt", id=job.id, fence=1, lease_token="x" * len(claim["lease_token"]))
            for verb in ("extend", "complete", "fail", "release"):
                assert again.ask(verb, id=job.id) == "lease_lost", verb
        second = again.ask("claim", lease=60, wait=20)
        assert (second["id"], second["fence"]) == (job.id, 2)
        again.ask("adopt", **claim)  # what the first one knew
        assert again.ask("complete", id=job.id) == "lease_lost"
        again.ask("adopt", **second)
        assert again.ask("complete", id=job.id) is None
        assert (await app.get(job.id)).attempts == 2  # type: ignore[union-attr]
        assert (await app.verify()).ok


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
