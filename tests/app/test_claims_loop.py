"""``async for claim in app.claims()``: for ever, and nothing that one job does ends it."""

import asyncio
import logging
from typing import Any

import pytest

import dibs
from dibs import App, FakeClock, NewJob, Status
from dibs.broker.protocol import Ask


async def test_claims_goes_on_after_failures(app: App, caplog: pytest.LogCaptureFixture) -> None:
    await app.enqueue_many([NewJob("t", what, max_attempts=1) for what in ("fails", "lost", "retried", "fine")])
    seen: list[str] = []
    with caplog.at_level(logging.ERROR, "dibs"):
        async for claim in app.claims("w", order="created_at"):
            async with claim:
                seen.append(claim.params)
                if claim.params == "fails":
                    raise ValueError("no good")
                if claim.params == "lost":
                    await app.cancel(claim.id)
                if claim.params == "retried":
                    raise dibs.Fail("never")
            if claim.params == "fine":
                break
    assert seen == ["fails", "lost", "retried", "fine"]
    assert (await app.counts()) == dibs.Counts(completed=1, failed=2, cancelled=1)
    assert ["no good" in record.getMessage() for record in caplog.records] == [True, False]
    assert caplog.records[1].exc_info is not None
    assert caplog.records[1].exc_info[0] is dibs.LeaseLost


async def test_claims_waits_for_the_next_job(app: App) -> None:
    iterator = aiter(app.claims())
    waiting = asyncio.ensure_future(anext(iterator))
    await asyncio.sleep(0)
    job = await app.enqueue("t")
    claim = await waiting
    assert claim.id == job.id
    await claim.complete()


async def test_claims_lets_a_cancellation_through_and_gives_the_job_back(app: App) -> None:
    await app.enqueue("t")
    inside = asyncio.Event()

    async def work() -> None:
        async for claim in app.claims():
            async with claim:
                inside.set()
                await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    again = await app.claim(wait=60)
    assert again is not None
    assert again.attempt == 1


async def test_claims_that_is_closed_while_it_waits_leaves_nothing_behind(app: App) -> None:
    async def work() -> None:
        async for _ in app.claims():
            pytest.fail("there is no job")

    task = asyncio.create_task(work())
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    job = await app.enqueue("t")
    assert (await app.explain(job.id)).job.status is Status.PENDING


@pytest.mark.parametrize("steps", range(12))
async def test_a_claim_cancelled_at_any_step_is_in_nobodys_hands(app: App, steps: int) -> None:
    """Race: the caller is cancelled before, while or after the store hands the job out."""
    job = await app.enqueue("t")
    task = asyncio.create_task(app.claim())
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    try:
        claim = await task
    except asyncio.CancelledError:
        pass
    else:
        assert claim is not None
        await claim.release()
    again = await app.claim(wait=60)
    assert again is not None
    assert (again.id, again.attempt) == (job.id, 1)


async def test_claims_outlives_a_store_that_is_away(
    app: App, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await app.enqueue("t")
    broker = app.runtime.broker()
    claim, tries = broker.claim, 0

    async def flaky(ask: Ask) -> list[dibs.Job]:
        nonlocal tries
        tries += 1
        if tries <= 3:
            raise dibs.StoreUnavailable("away")
        return await claim(ask)

    monkeypatch.setattr(broker, "claim", flaky)
    waiting = asyncio.ensure_future(anext(aiter(app.claims())))
    while not waiting.done():
        clock.advance(0.1)
        await asyncio.sleep(0)
    assert (await waiting).id == job.id
    assert tries == 4


async def test_claims_says_at_once_what_time_will_not_heal(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    async def outdated(_: Any) -> None:
        raise dibs.SchemaOutdated("old")

    with pytest.raises(dibs.InvalidRequest):
        await anext(aiter(app.claims("not a worker id")))
    monkeypatch.setattr(app.runtime.broker(), "claim", outdated)
    with pytest.raises(dibs.SchemaOutdated):
        await anext(aiter(app.claims()))
