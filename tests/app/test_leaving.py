"""The rules of leaving ``async with claim``, one row for each way out, in both twins."""
# ruff: noqa: ASYNC110, PT012, TRY301 - a job is looked at until it changes; what a block raises is the subject

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest

import dibs
from dibs import App, Claim, FakeClock, LeaseLost, Status


class Rule(NamedTuple):
    name: str
    raised: BaseException | None
    status: Status
    seen: type[BaseException] | None  # what the caller sees
    attempts: int = 1
    due_in: float | None = None


RULES = [
    Rule("nothing", None, Status.COMPLETED, None),
    Rule("an exception", ValueError("bad"), Status.PENDING, ValueError),
    Rule("Retry", dibs.Retry("later", delay=7), Status.PENDING, None, due_in=7),
    Rule("Retry at once", dibs.Retry(delay=0), Status.PENDING, None, due_in=0),
    Rule("Fail", dibs.Fail("never", code="gone"), Status.FAILED, None),
    Rule("Snooze", dibs.Snooze(30), Status.PENDING, None, attempts=0, due_in=30),
    Rule("CancelledError", asyncio.CancelledError(), Status.PENDING, asyncio.CancelledError, attempts=0),
    Rule("KeyboardInterrupt", KeyboardInterrupt(), Status.PENDING, KeyboardInterrupt, attempts=0),
    Rule("SystemExit", SystemExit(1), Status.PENDING, SystemExit, attempts=0),
    Rule("GeneratorExit", GeneratorExit(), Status.PENDING, GeneratorExit, attempts=0),
    Rule("a delay that is none", dibs.Snooze(-1), Status.PENDING, dibs.InvalidRequest),
]
by_name = pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])


async def start(app: App, **options: Any) -> Claim:
    await app.enqueue("t", **options)
    claim = await app.claim()
    assert claim is not None
    return claim


async def job_of(app: App, claim: Claim) -> dibs.Job:
    """Read the job once it is no longer claimed: where no one can wait, it is released a moment later."""
    while (job := await app.get(claim.id)) and job.status is Status.CLAIMED:
        await asyncio.sleep(0)
    assert job is not None
    return job


def judge(rule: Rule, job: dibs.Job, clock: FakeClock) -> None:
    assert (job.status, job.attempts) == (rule.status, rule.attempts)
    if rule.due_in is not None:
        assert job.due_us == clock.now() + rule.due_in * 1_000_000
    if isinstance(rule.raised, dibs.Fail):
        assert job.error is not None
        assert (job.error.code, job.error.message) == ("gone", "never")


@by_name
async def test_leaving(app: App, clock: FakeClock, rule: Rule) -> None:
    claim = await start(app)
    caught: BaseException | None = None
    try:
        async with claim:
            assert dibs.current() is claim
            if rule.raised is not None:
                raise rule.raised
    except BaseException as error:  # noqa: BLE001 - to see which it is
        caught = error
    assert type(caught) is (rule.seen or type(None))
    if rule.seen is not None and isinstance(rule.raised, rule.seen):
        assert caught is rule.raised
    with pytest.raises(dibs.WrongState):
        dibs.current()
    judge(rule, await job_of(app, claim), clock)


@by_name
def test_leaving_the_sync_twin(url: str, clock: FakeClock, rule: Rule) -> None:
    app = App(url, clock=clock)
    app.sync.enqueue("t")
    claim = app.sync.claim()
    assert claim is not None
    caught: BaseException | None = None
    try:
        with claim:
            assert dibs.current().id == claim.id
            if rule.raised is not None:
                raise rule.raised
    except BaseException as error:  # noqa: BLE001 - to see which it is
        caught = error
    assert type(caught) is (rule.seen or type(None))
    with pytest.raises(dibs.WrongState):
        dibs.current()
    while (job := app.sync.get(claim.id)) and job.status is Status.CLAIMED:
        pass
    assert job is not None
    judge(rule, job, clock)
    app.sync.close()


@pytest.mark.parametrize("raised", [None, ValueError("bad"), dibs.Retry(), dibs.Snooze(1)])
async def test_leaving_a_lost_claim_says_so(app: App, raised: Exception | None) -> None:
    claim = await start(app)
    with pytest.raises(LeaseLost) as caught:
        async with claim:
            await app.cancel(claim.id)
            if raised is not None:
                raise raised
    assert caught.value.__cause__ is raised
    assert claim.lost
    job = await app.get(claim.id)
    assert job is not None
    assert job.status is Status.CANCELLED


async def test_leaving_a_claim_that_is_known_to_be_lost(app: App) -> None:
    claim = await start(app)
    error = ValueError("own")
    with pytest.raises(LeaseLost) as caught:
        async with claim:
            await app.cancel(claim.id)
            with pytest.raises(LeaseLost):
                await claim.extend()
            assert claim.lost
            raise error
    assert caught.value.__cause__ is error


async def test_leaving_with_the_lease_lost_of_a_call_inside(app: App) -> None:
    claim = await start(app)
    with pytest.raises(LeaseLost) as caught:
        async with claim:
            await app.cancel(claim.id)
            await claim.progress(0.5)
    assert caught.value.__cause__ is None


async def test_leaving_a_lost_claim_by_cancellation_stays_a_cancellation(app: App) -> None:
    claim = await start(app)
    with pytest.raises(asyncio.CancelledError):
        async with claim:
            await app.cancel(claim.id)
            raise asyncio.CancelledError


@pytest.mark.parametrize("verb", ["complete", "fail", "release"])
async def test_leaving_what_was_settled_inside_does_nothing_more(app: App, verb: str) -> None:
    claim = await start(app, max_attempts=1)
    async with claim:
        await (claim.fail("x") if verb == "fail" else getattr(claim, verb)())
    assert [event.event for event in await app.log(claim.id)][-1] == {
        "complete": "completed",
        "fail": "failed",
        "release": "released",
    }[verb]


async def test_an_exception_after_settling_is_raised_and_changes_nothing(app: App) -> None:
    claim = await start(app)
    with pytest.raises(ValueError, match="late"):
        async with claim:
            await claim.complete(1)
            raise ValueError("late")
    job = await app.get(claim.id)
    assert job is not None
    assert (job.status, job.result) == (Status.COMPLETED, 1)


async def test_a_block_cannot_be_entered_twice(app: App) -> None:
    claim = await start(app)
    async with claim:
        with pytest.raises(dibs.WrongState, match="entered"):
            async with claim:
                pytest.fail("entered twice")
    with pytest.raises(dibs.WrongState, match="settled"):
        async with claim:
            pytest.fail("entered again")


async def test_current_is_the_innermost_claim(app: App) -> None:
    outer, inner = await start(app), await start(app)
    async with outer:
        async with inner:
            assert dibs.current() is inner
        assert dibs.current() is outer


async def test_a_cancelled_task_gives_its_job_back_even_if_cancelled_again(app: App) -> None:
    claim = await start(app)
    inside = asyncio.Event()

    async def work() -> None:
        async with claim:
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await inside.wait()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    again = await app.claim(wait=60)
    assert again is not None
    assert (again.id, again.fence, again.attempt) == (claim.id, 2, 1)


async def test_a_coroutine_that_is_thrown_away_gives_its_job_back(app: App) -> None:
    claim = await start(app)

    async def work() -> None:
        async with claim:
            await asyncio.Event().wait()

    coroutine = work()
    coroutine.send(None)
    coroutine.close()
    again = await app.claim(wait=60)
    assert again is not None
    assert again.fence == 2


async def test_a_generator_that_is_closed_gives_its_job_back(app: App) -> None:
    claim = await start(app)

    async def steps() -> AsyncIterator[int]:
        async with claim:
            yield 1

    async for _ in (iterator := steps()):
        break
    await iterator.aclose()  # type: ignore[attr-defined]
    again = await app.claim(wait=60)
    assert again is not None
    assert again.fence == 2


async def test_the_handlers_error_is_seen_even_if_it_cannot_be_recorded(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = await start(app)

    async def unavailable(*_: Any, **__: Any) -> None:
        raise dibs.StoreUnavailable("away")

    with pytest.raises(ValueError, match="mine") as caught:
        async with claim:
            monkeypatch.setattr(app.runtime.broker(), "settle", unavailable)
            raise ValueError("mine")
    assert "away" in caught.value.__notes__[0]
    assert not claim.settled
    assert not claim.lost
