"""What can happen to a file: foreign programs on it, a disk that is full, a process that dies as it writes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import dibs
from tests.chaos.crew import ROOT, Crew

MIB = 2**20


@contextmanager
def foreign(path: Path, how: str) -> Iterator[subprocess.Popen[bytes]]:
    """Let another program hold the file, until the block ends."""
    command = [sys.executable, "-m", "tests.chaos.pin", str(path), how]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert json.loads(process.stdout.readline()) == {"answer": "holding"}
        yield process
        process.stdin.close()
        assert process.wait() == 0


@pytest.mark.slow
async def test_a_pinned_reader_does_not_make_the_wal_grow_for_ever(path: Path, url: str, crew: Crew) -> None:
    wal = path.with_name("jobs.db-wal")
    async with dibs.App(url) as app:
        await app.enqueue("t")
        actors = [crew(url, f"churner-{index}") for index in range(2)]
        for actor in actors:
            assert actor.hear() == "ready"
        with foreign(path, "read"):
            for actor in actors:
                actor.tell("churn", seconds=4, size=20_000)
            assert all([await asyncio.to_thread(actor.hear) for actor in actors])
            pinned = wal.stat().st_size
            assert pinned > 8 * MIB, "too little was written to tell anything"

        # As soon as the reader has gone, the next writes begin the WAL anew, and the file shrinks.
        deadline = time.monotonic() + 30
        while wal.stat().st_size > 17 * MIB or wal.stat().st_size >= pinned:
            assert time.monotonic() < deadline, f"the WAL is still {wal.stat().st_size / MIB:.0f} MiB"
            assert await asyncio.to_thread(actors[0].ask, "churn", seconds=0.2, size=20_000)
        assert (await app.verify()).ok


@pytest.mark.slow
async def test_a_foreign_writer_is_waited_for(path: Path, url: str, crew: Crew) -> None:
    async with dibs.App(url) as app, dibs.App(url) as other:
        held = await app.enqueue("held")
        claim = await app.claim("holder", tasks=["held"], lease=60)
        assert claim is not None
        with foreign(path, "write") as program:
            assert program.stdin is not None
            timer = threading.Timer(2.0, program.stdin.close)
            began = time.monotonic()
            timer.start()
            calls = [each.enqueue("t", number) for number in range(5) for each in (app, other)]
            first, *_ = await asyncio.gather(claim.extend(), claim.complete(), *calls, return_exceptions=True)
            took = time.monotonic() - began
            timer.join()
        assert not isinstance(first, Exception)
        assert took >= 1.9
        assert (await app.get(held.id)).status == "completed"  # type: ignore[union-attr]
        assert (await app.counts()).pending == 10
        for each in (app, other):
            assert await each.claim("worker") is not None
        assert (await app.verify()).ok


async def test_a_foreign_writer_does_not_keep_readers_waiting(path: Path, url: str) -> None:
    async with dibs.App(url) as app:
        job = await app.enqueue("t")
        with foreign(path, "write"):
            assert (await app.get(job.id)) is not None
            assert (await app.counts()).pending == 1
            assert len(await app.log(job.id)) == 1


@pytest.mark.parametrize("size", [3000, 100_000])
async def test_a_full_disk_refuses_and_forgets_nothing(size: int, url: str, crew: Crew) -> None:
    actor = crew(url, "crowded")
    assert actor.hear() == "ready"
    before = actor.ask("enqueue", params="first")["id"]
    actor.ask("limit_files", most=MIB)
    acknowledged = actor.ask("enqueue_until_refused", size=size)
    assert acknowledged
    assert actor.ask("enqueue", params="x" * size) == "store_unavailable"

    # Another process, which has room, sees all that was acknowledged and nothing else, and works.
    async with dibs.App(url) as app:
        found = {job.id async for job in app.find(limit=1000)}
        assert found == {before, *acknowledged}
        assert (await app.verify()).ok
        claim = await app.claim("elsewhere")
        assert claim is not None
        assert claim.id == before
        await claim.complete()

        # There is room again: the same process goes on, without being started anew.
        actor.ask("limit_files", most=None)
        after = actor.ask("enqueue", params="x" * size)["id"]
        taken = actor.ask("drain", limits=[1, 100])
        assert {id for id, _ in taken} == {*acknowledged, after}
        assert (await app.counts()).completed == len(acknowledged) + 2
        assert (await app.verify()).ok


@pytest.mark.parametrize("lines", [1, 40, 150])
async def test_killed_in_the_middle_of_many_enqueues(lines: int, url: str, crew: Crew) -> None:
    actors = [crew(url, f"producer-{index}") for index in range(2)]
    for actor in actors:
        assert actor.hear() == "ready"
        actor.tell("enqueue_for_ever", batch=25, size=2000)
    acknowledged = [id for _ in range(lines) for actor in actors for id in actor.hear()]
    for actor in actors:
        actor.die()
    for actor in actors:
        acknowledged += [id for ids in actor.rest() for id in ids]

    async with dibs.App(url) as app:
        jobs = {job.id: job async for job in app.find(limit=1000)}
        assert set(acknowledged) <= set(jobs)
        assert len(set(acknowledged)) == len(acknowledged)
        batches = Counter(job.created_us for job in jobs.values() if job.params["batch"] is not None)
        assert set(batches.values()) <= {25}, "a batch is there in part"
        assert len(jobs) - len(acknowledged) <= 2 * 25, "no more than what was on its way"
        assert (await app.verify()).ok
        claim = await app.claim("worker")
        assert claim is not None
        await claim.complete()
