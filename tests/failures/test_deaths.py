"""Whoever is killed, at whatever point of its talk with a server, costs at most an attempt, and one key is one job."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import dibs
from tests.chaos.crew import PATIENCE, ROOT
from tests.chaos.histories import assert_clean, recording
from tests.failures.conftest import QUICK, SERVERS
from tests.failures.victim import LETTER, POINTS

ENDED = ["enqueued", "claimed", "completed"]
TAKEN_OVER = ["enqueued", "claimed", "expired", "claimed", "completed"]
NOTHING_HAPPENED = {"before-the-enqueue-commits", "after-the-enqueue-commits", "before-the-claim-commits"}
BY_THE_VICTIM = "after-the-settle-commits"


def kill_all(url: str, folder: Path) -> dict[str, int]:
    """Run the victims; say how each ended."""
    command = [sys.executable, "-m", "tests.failures.victim", url, str(folder)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, timeout=PATIENCE, check=True)
    ends: dict[str, int] = json.loads(done.stdout)
    return ends


async def rescue(app: dibs.App) -> None:
    """Work until every job has ended, as the next worker would."""
    while (await app.counts()).unfinished:
        for claim in await app.claim_many("rescuer", limit=10, lease=10, wait=10):
            async with claim:
                pass


@pytest.mark.parametrize("url", ["served", *SERVERS], indirect=True)
async def test_killed_at_any_point(url: str, tmp_path: Path) -> None:
    """SQLite itself says when it commits: there, tests/chaos/test_sigkill.py."""
    with recording(tmp_path / "test.jsonl", "test"):
        async with dibs.App(url, retry=QUICK, reap_every=0.2) as app:
            jobs = {
                point: await app.enqueue("t", queue=point) for point, (step, _) in POINTS.items() if step != "enqueue"
            }
            assert await asyncio.to_thread(kill_all, url, tmp_path) == dict.fromkeys(POINTS, -signal.SIGKILL)
            for point, (step, when) in POINTS.items():
                if step == "enqueue":  # its producer asks again, not knowing
                    jobs[point] = await app.enqueue("t", LETTER, queue=point, idempotency_key=point)
                    assert jobs[point].was_duplicate == (when == "after"), point
            await rescue(app)

            assert {job.id async for job in app.find()} == {job.id for job in jobs.values()}
            for point, job in jobs.items():
                log = [str(event.event) for event in await app.log(job.id)]
                assert log == (ENDED if point in {*NOTHING_HAPPENED, BY_THE_VICTIM} else TAKEN_OVER), point
                after = await app.get(job.id)
                assert after is not None
                assert after.status == "completed"
                assert after.attempts == after.fence == log.count("claimed")
                assert after.worker_id == (point if point == BY_THE_VICTIM else "rescuer")
            assert (await app.verify()).ok
    if not url.startswith("http:"):  # where the server is asked, and not its store
        await assert_clean(url, tmp_path)
