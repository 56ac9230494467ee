"""A worker under which a later dibs has changed the schema: it ends, and says why; what it held is run by others."""

import asyncio

import pytest

import dibs
from tests.upgrades.bare import ask

# As a step of a later dibs does it.
ELSEWHERE = "ALTER TABLE dibs_job RENAME TO dibs_job_of_another"
BACK = "ALTER TABLE dibs_job_of_another RENAME TO dibs_job"
LEASE = 1.0


@pytest.mark.parametrize("ends", [True, False], ids=["a handler ends", "a handler runs on"])
async def test_the_table_of_jobs_is_gone(url: str, ends: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Whether the worker has a result that it cannot tell anyone, or only wants more to do."""
    app = dibs.App(url, reap_every=0.2, retry=dibs.Backoff(base=0.01, cap=0.01))
    begun, go = asyncio.Event(), asyncio.Event()

    @app.task
    async def slow() -> int | None:
        begun.set()
        await go.wait()
        return dibs.current().fence

    async with app:
        await app.migrate()
        job = await slow.enqueue()
        # One that has no room for more does not ask for more: it can only learn of it as it settles.
        worker = dibs.Worker(app, concurrency=1 if ends else 2, prefetch=0, lease=LEASE)
        working = asyncio.create_task(worker.run())
        await asyncio.wait_for(begun.wait(), 20)
        await ask(url, ELSEWHERE)
        if ends:
            go.set()
        with pytest.raises(dibs.SchemaOutdated) as caught:
            await asyncio.wait_for(working, 30)
        assert "upgrade dibs here too" in caught.value.hint
        assert "jobs cannot be settled, and will be run again" in caplog.text

        await ask(url, BACK)
        go.set()
        again = asyncio.create_task(dibs.Worker(app).run())
        done = await app.wait(job.id, 20)
        assert (done.status, done.result) == ("completed", 2)
        again.cancel()
        await asyncio.wait([again])
        assert (await app.verify()).ok


async def test_an_enqueue_is_told_and_not_acknowledged(url: str) -> None:
    async with dibs.App(url) as app:
        await app.migrate()
        await app.enqueue("before")
        await ask(url, ELSEWHERE)
        with pytest.raises(dibs.SchemaOutdated):
            await app.enqueue("lost")
        await ask(url, BACK)
        assert (await app.counts()).pending == 1
