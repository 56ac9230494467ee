"""A worker that is killed, at whatever point, costs at most an attempt: every job ends, and the log fits."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import dibs
from tests.chaos.crew import PATIENCE, ROOT, Crew
from tests.chaos.histories import assert_clean, recording

POINTS = {
    "before the claim commits": ["enqueued", "claimed", "completed"],
    "after the claim commits": ["enqueued", "claimed", "expired", "claimed", "completed"],
    "in the handler": ["enqueued", "claimed", "expired", "claimed", "completed"],
    "in an extension, before it commits": ["enqueued", "claimed", "expired", "claimed", "completed"],
    "in an extension, after it commits": ["enqueued", "claimed", "expired", "claimed", "completed"],
    "before the settle commits": ["enqueued", "claimed", "expired", "claimed", "completed"],
    "after the settle commits": ["enqueued", "claimed", "completed"],
}
QUICK = dibs.Backoff(base=0.01, cap=0.01)


def run_victim(url: str, point: str, history: Path) -> int:
    command = [sys.executable, "-m", "tests.chaos.victim", url, point, str(history)]
    return subprocess.run(command, cwd=ROOT, timeout=PATIENCE, check=False).returncode


async def rescue(app: dibs.App) -> None:
    """Work until every job has ended, as the next worker would."""
    end = time.monotonic() + PATIENCE
    while (await app.counts()).unfinished:
        assert time.monotonic() < end, [(job, await app.log(job.id)) async for job in app.find()]
        claim = await app.claim("rescuer", lease=10, wait=2)
        if claim is not None:
            async with claim:
                pass


@pytest.mark.parametrize("point", POINTS)
async def test_killed(point: str, url: str, tmp_path: Path) -> None:
    with recording(tmp_path / "test.jsonl", "test"):
        async with dibs.App(url, retry=QUICK) as app:
            first, *others = await app.enqueue_many([dibs.NewJob("t", number) for number in range(3)])

            assert run_victim(url, point, tmp_path / "victim.jsonl") == -signal.SIGKILL
            await rescue(app)

            job = await app.get(first.id)
            log = [str(event.event) for event in await app.log(first.id)]
            assert log == POINTS[point]
            assert job is not None
            assert job.status == "completed"
            assert job.attempts == job.fence == log.count("claimed")
            assert job.worker_id == ("victim" if point == "after the settle commits" else "rescuer")
            for other in others:
                assert [str(event.event) for event in await app.log(other.id)] == ["enqueued", "claimed", "completed"]
            report = await app.verify()
            assert report.ok, str(report)
    await assert_clean(url, tmp_path)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_killed_as_it_enqueues(when: str, url: str, tmp_path: Path) -> None:
    """Who asks again, not knowing, makes the job, or is told of it; there is one."""
    async with dibs.App(url) as app:
        assert run_victim(url, f"{when} the enqueue commits", tmp_path / "victim.jsonl") == -signal.SIGKILL
        job = await app.enqueue("t", idempotency_key="key")
        assert job.was_duplicate == (when == "after")
        assert [each.id async for each in app.find()] == [job.id]
        await rescue(app)
        assert (await app.verify()).ok


async def test_terminated_in_the_handler(url: str, crew: Crew) -> None:
    async with dibs.App(url, retry=QUICK) as app:
        job = await app.enqueue("t")
        worker = crew(url, "victim")
        assert worker.hear() == "ready"
        claim = worker.ask("claim", lease=1)
        worker.ask("enter", id=claim["id"])
        worker.send(signal.SIGTERM)
        worker.wait()
        await rescue(app)

        assert (await app.wait(job.id, 10)).attempts == 2
        assert (await app.verify()).ok


async def test_killed_again_and_again(url: str, tmp_path: Path) -> None:
    """As many deaths as there are attempts: the dead letter, and no more claims."""
    async with dibs.App(url, retry=QUICK, max_attempts=2) as app:
        job = await app.enqueue("t")
        for death in range(2):
            assert run_victim(url, "in the handler", tmp_path / f"{death}.jsonl") == -signal.SIGKILL
            while (await app.get(job.id)).status == "claimed":  # type: ignore[union-attr]
                assert await app.claim("looker", queues=["nowhere"], wait=1) is None

        ended = await app.get(job.id)
        assert ended is not None
        assert (ended.status, ended.attempts, ended.fence) == ("failed", 2, 2)
        assert ended.error is not None
        assert ended.error.kind == "lease_expired"
        assert await app.claim("looker", wait=0.1) is None
        assert (await app.verify()).ok
