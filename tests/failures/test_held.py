"""Who holds a job when its worker stands still, has come back under its name, or is on no list: real processes."""

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import dibs
from dibs.broker.connect import open_store
from dibs.clock import Clock
from dibs.store import Store
from tests.chaos.crew import Crew
from tests.chaos.histories import assert_clean, recording
from tests.failures.conftest import QUICK


@pytest.fixture
async def store(kept: str) -> AsyncIterator[Store]:
    """The place itself, for who deletes things there."""
    store = open_store(kept, Clock())
    await store.open()
    yield store
    await store.close()


async def test_a_stopped_process_is_taken_over_and_refused(url: str, kept: str, tmp_path: Path, crew: Crew) -> None:
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
    if url == kept:
        await assert_clean(url, tmp_path)


async def test_a_restarted_worker_holds_nothing_of_its_predecessor(url: str, store: Store, crew: Crew) -> None:
    """And what its predecessor held is not stuck, though no list of workers knows of either: leases need none."""
    async with dibs.App(url, retry=QUICK) as app:
        first = crew(url, "same-name")
        assert first.hear() == "ready"
        job = await app.enqueue("t")
        assert first.ask("beat") is None
        claim = first.ask("claim", lease=2)
        assert [worker.worker_id for worker in await app.workers()] == ["same-name"]
        first.die()
        [row] = await store.documents("worker/")
        await store.put(row.name, None)
        assert await store.documents("worker/") == []

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
        log = [str(event.event) for event in await app.log(job.id)]
        assert log == ["enqueued", "claimed", "expired", "claimed", "completed"]
        assert (await app.verify()).ok
