"""The broker over HTTP on a bad network: what is safe is sent again, and nothing else is."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import dibs
from dibs import App, Filter, NewJob, Status, StoreUnavailable
from dibs.broker.http import remote
from dibs.broker.protocol import Ending
from dibs.domain.job import Extension, Outcome
from tests.server.process import Serving
from tests.servers.proxy import Proxy


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    with Serving(tmp_path, "--no-auth") as serving:
        yield serving


@pytest.fixture
def proxy(serving: Serving) -> Iterator[Proxy]:
    with Proxy.of(serving.url) as proxy:
        yield proxy


@asynccontextmanager
async def over(url: str) -> AsyncIterator[App]:
    async with App(url) as app:
        yield app


@pytest.fixture
async def app(serving: Serving, proxy: Proxy) -> AsyncIterator[App]:
    async with over(proxy.through(serving.url)) as app:
        yield app


@pytest.fixture
async def store(serving: Serving) -> AsyncIterator[App]:
    """The store itself, to see what became of things."""
    async with over(serving.store) as app:
        yield app


async def names(app: App, id: str) -> list[str]:
    return [event.event.value for event in await app.log(id)]


# Replies that are lost


@pytest.mark.parametrize("number", [1, 3])
async def test_an_enqueue_whose_reply_was_lost_makes_one_job(app: App, store: App, proxy: Proxy, number: int) -> None:
    proxy.cut_after(b"POST /api/tasks ", times=2)
    jobs = await app.enqueue_many([NewJob("t", place) for place in range(number)])

    assert proxy.cuts == 2
    assert [(job.params, job.was_duplicate) for job in jobs] == [(place, False) for place in range(number)]
    assert (await store.counts()).pending == number
    assert sorted([job.id async for job in store.find()]) == sorted(job.id for job in jobs)


async def test_an_enqueue_under_a_key_of_one_s_own_tells_duplicates_apart(app: App, proxy: Proxy) -> None:
    first = await app.enqueue("t", idempotency_key="k")
    proxy.cut_after(b"POST /api/tasks ")
    again = await app.enqueue("t", idempotency_key="k")

    assert (again.id, again.was_duplicate, proxy.cuts) == (first.id, True, 1)


async def test_a_settle_whose_reply_was_lost_took_effect_once(app: App, store: App, proxy: Proxy) -> None:
    await app.enqueue_many([NewJob("t", max_attempts=2) for _ in range(3)])
    done, failed, released = await app.claim_many("w", limit=3)
    proxy.cut_after(b"POST /api/tasks/settle", times=3)
    await done.complete("done")
    await failed.fail("no", delay=60)
    await released.release()

    assert proxy.cuts == 3
    assert await names(store, done.id) == ["enqueued", "claimed", "completed"]
    assert await names(store, failed.id) == ["enqueued", "claimed", "retried"]
    assert await names(store, released.id) == ["enqueued", "claimed", "released"]
    assert done.settled


@pytest.mark.parametrize("verb", ["release", "fail"])
async def test_a_settle_whose_reply_was_lost_until_another_held_the_job_says_that_it_is_in_doubt(
    app: App, store: App, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """The job is another's by then, so it is lost: but who records what was done must not read "nothing" in it."""
    job = await app.enqueue("t", retry=dibs.Backoff(base=0, cap=0))
    claim = await app.claim("w")
    assert claim is not None
    monkeypatch.setattr(remote.Line, "_pause", lambda *_: 1.0)
    proxy.cut_after(b"POST /api/tasks/settle")
    other = asyncio.ensure_future(store.claim("other", wait=10))
    with pytest.raises(dibs.LeaseLost, match="sent again") as lost:
        await (claim.release() if verb == "release" else claim.fail("no", delay=0))

    assert (proxy.cuts, lost.value.in_doubt) == (1, True)
    theirs = await other
    assert theirs is not None
    ended = "released" if verb == "release" else "retried"
    assert await names(store, job.id) == ["enqueued", "claimed", ended, "claimed"]
    with pytest.raises(dibs.LeaseLost) as lost:
        await claim.complete()
    assert not lost.value.in_doubt
    await theirs.complete()


async def test_an_extend_whose_reply_was_lost_is_no_loss(app: App, proxy: Proxy) -> None:
    await app.enqueue("t")
    claim = await app.claim("w")
    assert claim is not None
    proxy.cut_after(b"POST /api/tasks/extend")
    await claim.progress(0.5, "half")

    job = await app.get(claim.id)
    assert job is not None
    assert (job.progress, proxy.cuts, claim.lost) == (0.5, 1, False)


@pytest.mark.parametrize("by_id", [False, True])
async def test_a_claim_whose_reply_was_lost_is_not_sent_again(
    app: App, store: App, proxy: Proxy, *, by_id: bool
) -> None:
    jobs = await app.enqueue_many([NewJob("t"), NewJob("t")])
    proxy.cut_after(b"/claim")
    with pytest.raises(StoreUnavailable, match="may have done"):
        await app.claim("w", id=jobs[0].id if by_id else None)

    assert proxy.cuts == 1
    assert (await store.counts()).claimed == 1
    assert await names(store, jobs[0].id) == ["enqueued", "claimed"]
    assert await names(store, jobs[1].id) == ["enqueued"]


async def test_what_must_not_be_done_twice_is_not_sent_again(app: App, store: App, proxy: Proxy) -> None:
    job = await app.enqueue("t")
    claim = await app.claim("w")
    assert claim is not None
    await claim.complete()
    broker = app.runtime.broker()
    calls = [
        (b"/api/dead/redrive", lambda: app.redrive(job.id)),
        (b"/api/documents", lambda: broker.put("d", b"one", expect=0)),
    ]
    for pattern, call in calls:
        proxy.cut_after(pattern)
        with pytest.raises(StoreUnavailable, match="may have done"):
            await call()
    assert await names(store, job.id) == ["enqueued", "claimed", "completed", "redriven"]
    written = await store.runtime.broker().read("d")
    assert written is not None
    assert written.version == 1


async def test_what_only_looks_is_sent_again(app: App, proxy: Proxy) -> None:
    job = await app.enqueue("t")
    looks: list[Callable[[], Awaitable[object]]] = [
        lambda: app.get(job.id),
        app.counts,
        app.queues,
        lambda: app.log(job.id),
        lambda: app.explain(job.id),
        app.find,
        app.workers,
        app.verify,
        lambda: app.redrive(where=Filter(), dry_run=True),
    ]
    for cuts, look in enumerate(looks, 1):
        proxy.cut_after(b" /api/")
        assert await look() is not None
        assert proxy.cuts == cuts


# A server that is away


async def test_calls_wait_for_a_server_that_starts_again(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "TRIES", 9)  # a machine that is busy takes its time to start one
    async with over(serving.url) as app:
        await app.enqueue("t", id="before")
        serving.end(signal.SIGKILL)
        enqueueing = asyncio.create_task(app.enqueue("t", id="after"))
        claiming = asyncio.create_task(app.claim("w", id="before"))  # was never sent, so it may be
        await asyncio.to_thread(serving.start)

        assert (await enqueueing).id == "after"
        claim = await claiming
        assert claim is not None
        assert claim.fence == 1


async def test_a_server_that_stays_away_is_told_of(serving: Serving) -> None:
    serving.end()
    async with over(serving.url) as app:
        with pytest.raises(StoreUnavailable, match="cannot be reached") as raised:
            await app.enqueue("t")
    assert raised.value.exit_code == 8


async def test_a_network_that_falls_silent(app: App, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "TRIES", 2)
    monkeypatch.setattr(remote, "SECONDS", 0.3)
    await app.enqueue("t")
    proxy.silence()
    with pytest.raises(StoreUnavailable, match="no answer within"):
        await app.counts()
    proxy.pass_on()
    assert (await app.counts()).pending == 1


async def test_who_waits_on_a_dead_connection_learns_of_it_by_another_call(
    app: App, store: App, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that has died says nothing: whoever waits for a job on it would do so until the wait is over."""
    monkeypatch.setattr(remote, "SECONDS", 0.5)
    waiting = [asyncio.create_task(app.claim(f"w{n}", queues=["other"], wait=20)) for n in range(3)]
    await app.counts()
    held = app.runtime.broker()._line._waiting._used  # type: ignore[attr-defined]
    while len(held) < 3:  # noqa: ASYNC110 - no one is told
        await asyncio.sleep(0.01)
    proxy.silence()
    proxy.pass_on()  # what was connected is dead, and what connects anew is well
    assert (await app.counts()).unfinished == 0  # is not answered, and sent again

    done, _ = await asyncio.wait(waiting, timeout=5)
    assert len(done) == 3
    for task in done:
        with pytest.raises(StoreUnavailable, match="the connection was cut"):
            await task


async def test_who_waits_on_a_connection_that_lives_is_left_alone(
    app: App, store: App, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "SECONDS", 0.5)
    monkeypatch.setattr(remote, "TRIES", 1)
    await app.counts()
    proxy.cut_after(b"/api/stats", silently=True)
    late = asyncio.create_task(app.counts())
    while not proxy.cuts:  # noqa: ASYNC110 - no one is told
        await asyncio.sleep(0.01)
    waiting = asyncio.create_task(app.claim("w", wait=20))  # connects, and so has heard of the server since then
    with pytest.raises(StoreUnavailable, match="no answer within"):
        await late
    job = await store.enqueue("t")
    claim = await waiting
    assert claim is not None
    assert claim.id == job.id


async def test_connections_are_kept(app: App, proxy: Proxy) -> None:
    for _ in range(50):
        await app.enqueue("t")
        await app.counts()
    assert proxy.connections == 1
    await asyncio.gather(*(app.enqueue("t") for _ in range(200)))
    assert proxy.connections <= remote.MOST
    assert (await app.counts()).pending == 250


async def test_a_connection_that_the_server_closed_meanwhile_is_not_used(app: App, proxy: Proxy) -> None:
    await app.enqueue("t")
    assert proxy.reset() == 1
    await asyncio.sleep(0.05)  # for the reset to arrive; what is written before is another test
    assert await app.claim("w") is not None


# Claims that are given up


async def test_a_claim_that_is_given_up_is_held_by_no_one(app: App, store: App) -> None:
    waiting = [asyncio.create_task(app.claim(f"w{n}", wait=60)) for n in range(5)]
    await asyncio.sleep(0.2)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await app.enqueue("t")
    claim = await app.claim("other", wait=10)
    assert claim is not None
    assert (claim.fence, await names(store, claim.id)) == (1, ["enqueued", "claimed"])


async def seconds_of_a_claim(app: App, store: App) -> float:
    """How long an answer takes here, at its quickest: moments are drawn by it, as machines differ."""
    took = []
    for _ in range(5):
        await store.enqueue("t", retention=0)
        began = time.monotonic()
        claim = await app.claim("w")
        took.append(time.monotonic() - began)
        assert claim is not None
        await claim.complete()
    return min(took)


async def test_a_claim_that_is_given_up_as_its_answer_comes_is_given_back(serving: Serving, store: App) -> None:
    """Race: the caller gives up just as the answer comes, or a moment before or after. It is never held by no one."""
    draw = random.Random(4)
    async with over(serving.url) as app:
        took, given_up = await seconds_of_a_claim(app, store), 0
        for _ in range(60):
            job = await store.enqueue("t", retention=0)
            task = asyncio.create_task(app.claim("w", lease=60))
            await asyncio.sleep(draw.uniform(0, 1.5 * took))
            task.cancel()
            [got] = await asyncio.gather(task, return_exceptions=True)
            if isinstance(got, dibs.Claim):
                await got.complete()
                continue
            given_up += 1
            claim = await store.claim("heir", wait=10)  # the server gives back what it had claimed for no one
            assert claim is not None
            assert (claim.id, claim.job.attempts) == (job.id, 0)
            await claim.complete()
        assert given_up > 5


async def test_a_claim_that_waits_and_is_given_up_as_a_job_comes(serving: Serving, store: App) -> None:
    """Race: the same, while the server holds the request until a job comes."""
    draw = random.Random(5)
    async with over(serving.url) as app:
        took, given_up = await seconds_of_a_claim(app, store), 0
        for _ in range(40):
            task = asyncio.create_task(app.claim("w", lease=60, wait=30))
            await asyncio.sleep(0.02)
            enqueueing = asyncio.create_task(app.enqueue("t", retention=0))
            await asyncio.sleep(draw.uniform(0, 3 * took))  # two answers and a wake-up, at the least
            task.cancel()
            [got] = await asyncio.gather(task, return_exceptions=True)
            job = await enqueueing
            if isinstance(got, dibs.Claim):
                await got.complete()
                continue
            assert isinstance(got, asyncio.CancelledError)
            given_up += 1
            claim = await store.claim("heir", wait=10)
            assert claim is not None
            assert (claim.id, claim.job.attempts) == (job.id, 0)
            await claim.complete()
        assert given_up  # on a machine that is very busy most answers come before


async def test_an_answer_whose_caller_was_cancelled_before_it_woke(
    serving: Serving, store: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with over(serving.url) as app:
        await app.counts()
        job = await store.enqueue("t")
        task = asyncio.create_task(app.claim("w"))
        line = app.runtime.broker()._remote.line()  # type: ignore[attr-defined]
        while not line._waiting._used:  # noqa: ASYNC110 - it tells no one
            await asyncio.sleep(0)
        [link] = line._waiting._used
        end = link._end

        def end_and_cancel(body: bytes) -> None:
            end(body)
            task.cancel()  # the answer is there, and its caller has not been woken yet

        monkeypatch.setattr(link, "_end", end_and_cancel)
        with pytest.raises(asyncio.CancelledError):
            await task
        found = await store.get(job.id)
        assert found is not None
        assert (found.status, found.attempts) == (Status.PENDING, 0)


async def test_those_who_wait_keep_no_one_from_settling(app: App) -> None:
    await app.enqueue("t", queue="a")
    claim = await app.claim("w")
    assert claim is not None
    waiting = [asyncio.create_task(app.claim(f"w{n}", queues=["b"], wait=60)) for n in range(2 * remote.MOST)]
    await asyncio.sleep(0.3)
    await asyncio.wait_for(claim.complete(), 10)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


# Large and many


async def test_results_that_are_more_than_a_server_takes_at_once(app: App) -> None:
    await app.enqueue_many([NewJob("t") for _ in range(20)])
    claims = await app.claim_many("w", limit=20)
    big = "x" * ((1 << 20) - 2)
    await asyncio.gather(*(claim.complete(big) for claim in claims))
    assert (await app.counts()).completed == 20


async def test_more_ids_than_a_server_takes_at_once(app: App) -> None:
    jobs = [job for _ in range(2) for job in await app.enqueue_many([NewJob("t") for _ in range(500)])]
    changes = await app.cancel(*[job.id for job in jobs], "none")  # the last is not left alone, which would be an error
    assert (changes.changed, changes.missing) == (1000, 1)


async def test_extensions_beyond_a_thousand(app: App) -> None:
    await app.enqueue("t")
    claim = await app.claim("w")
    assert claim is not None
    outcomes = await app.runtime.broker().extend([Extension(claim.ref)] * 1500)
    assert outcomes == [Outcome.APPLIED] * 1500
    endings = [Ending(claim.ref, "complete")] * 1500
    assert {written.outcome for written in await app.runtime.broker().settle(endings)} == {
        Outcome.APPLIED,
        Outcome.REPEATED,
    }


# The worker


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_worker_whose_server_is_killed_again_and_again(
    app: App, store: App, serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "dibs")
    ran: list[tuple[str, int]] = []

    @app.task(max_attempts=50, lease=3, retry=dibs.Backoff(base=0))
    async def work() -> int:
        claim = dibs.current()
        ran.append((claim.id, claim.fence))
        await asyncio.sleep(0.002)
        return claim.fence

    worker = dibs.Worker(app, concurrency=5)
    running = asyncio.create_task(worker.run())
    acknowledged = []
    for _ in range(4):
        acknowledged += [await work.enqueue() for _ in range(20)]
        await asyncio.to_thread(serving.end, signal.SIGKILL)
        await asyncio.to_thread(serving.start)
    while (await store.counts()).unfinished:  # noqa: ASYNC110 - no one else tells
        await asyncio.sleep(0.1)
    worker.stop()
    await running

    assert len(set(ran)) == len(ran), "a fence was handed out twice"
    for job in acknowledged:
        kept = await store.get(job.id)
        assert kept is not None
        assert (kept.status, kept.result) == (Status.COMPLETED, kept.fence)
    assert (await app.verify()).ok
