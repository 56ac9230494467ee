"""The calls of an app, each once, and how it opens and closes."""

import asyncio
import os
import re
import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

import dibs
from dibs import App, FakeClock, InvalidRequest, NewJob, NotClaimable, NotFound, Order, Status
from dibs.domain.job import Extension, Outcome


async def claimed(app: App, **wishes) -> dibs.Claim:
    claim = await app.claim(**wishes)
    assert claim is not None
    return claim


async def test_enqueue_claim_complete(app: App) -> None:
    job = await app.enqueue("resize", {"path": "a.png"}, priority="high", tags=["x"], delay=timedelta(0))
    assert (job.status, job.priority, job.tags, job.was_duplicate) == (Status.PENDING, 10, ("x",), False)

    claim = await claimed(app, worker_id="worker-1", tasks=["resize"])
    assert (claim.id, claim.task, claim.params) == (job.id, "resize", {"path": "a.png"})
    assert (claim.fence, claim.attempt, claim.lost, claim.settled) == (1, 1, False, False)
    assert claim.job.worker_id == "worker-1"
    assert claim.params is claim.params, "decoded once"
    await claim.complete({"size": 3})

    ended = await app.get(job.id)
    assert ended is not None
    assert (ended.status, ended.result, ended.attempts) == (Status.COMPLETED, {"size": 3}, 1)
    assert await app.claim() is None
    assert [event.event for event in await app.log(job.id)] == ["enqueued", "claimed", "completed"]
    assert (await app.verify()).ok


async def test_claim_fail_is_tried_again_after_the_delay_asked_for(app: App, clock: FakeClock) -> None:
    await app.enqueue("t", max_attempts=2)
    await (await claimed(app)).fail("no", delay=timedelta(seconds=5))
    assert await app.claim() is None
    clock.advance(5)
    claim = await claimed(app)
    assert (claim.attempt, claim.fence) == (2, 2)
    await claim.fail(dibs.Error("still no", kind="Stubborn", code="no"))
    job = await app.get(claim.id)
    assert job is not None
    assert job.status is Status.FAILED
    assert job.error == dibs.Error("still no", kind="Stubborn", code="no")


async def test_claim_fail_for_good(app: App) -> None:
    await app.enqueue("t")
    claim = await claimed(app)
    await claim.fail(ValueError("bad"), retryable=False)
    job = await app.get(claim.id)
    assert job is not None
    assert job.error is not None
    assert (job.status, job.error.kind, job.error.message) == (Status.FAILED, "ValueError", "bad")


async def test_claim_release_counts_no_attempt(app: App, clock: FakeClock) -> None:
    await app.enqueue("t")
    await (await claimed(app)).release(delay=10)
    assert await app.claim() is None
    clock.advance(10)
    assert (await claimed(app)).attempt == 1


async def test_settling_twice_is_safe_and_the_other_verb_is_refused(app: App) -> None:
    await app.enqueue("t")
    claim = await claimed(app)
    await claim.complete(1)
    await claim.complete(2)
    with pytest.raises(dibs.LeaseLost):
        await claim.fail("no")
    assert not claim.lost, "it was settled, by its own holder"
    job = await app.get(claim.id)
    assert job is not None
    assert job.result == 1


async def test_a_stale_claim_is_told_and_changes_nothing(app: App, clock: FakeClock) -> None:
    await app.enqueue("t", retry=dibs.Backoff(base=0))
    stale = await claimed(app, lease=10)
    clock.advance(11)
    current = await claimed(app, wait=60)  # the app itself may be reaping at this very moment
    assert (current.id, current.fence) == (stale.id, 2)
    for call in (stale.complete(), stale.fail("x"), stale.release(), stale.extend(), stale.progress(0.5)):
        with pytest.raises(dibs.LeaseLost, match="fence 1"):
            await call
    assert stale.lost
    with pytest.raises(dibs.LeaseLost):
        async with stale:
            pytest.fail("entered a lost claim")
    await current.complete()


async def test_a_claim_whose_job_is_gone_is_lost(app: App) -> None:
    await app.enqueue("t")
    claim = await claimed(app)
    await app.cancel(claim.id)
    await app.purge(claim.id)
    with pytest.raises(dibs.LeaseLost):
        await claim.complete()
    with pytest.raises(dibs.LeaseLost):
        await claim.fail("x")


async def test_progress_extends_and_tells(app: App, clock: FakeClock) -> None:
    await app.enqueue("t")
    claim = await claimed(app, lease=10)
    clock.advance(5)
    await claim.progress(0.5, "half")
    job = await app.get(claim.id)
    assert job is not None
    assert (job.progress, job.progress_note) == (0.5, "half")
    assert job.lease_expires_us == clock.now() + 10_000_000


async def test_claim_many(app: App) -> None:
    await app.enqueue_many([NewJob("t", number) for number in range(5)])
    claims = await app.claim_many("w", limit=3, order=Order.CREATED_AT)
    assert [claim.params for claim in claims] == [0, 1, 2]
    assert len({claim.lease_token for claim in claims}) >= 1
    assert len(await app.claim_many("w", limit=3)) == 2
    assert await app.claim_many("w", limit=3) == []


async def test_claim_by_id_or_say_why_not(app: App) -> None:
    job = await app.enqueue("t", delay=60)
    with pytest.raises(NotClaimable) as caught:
        await app.claim(id=job.id)
    assert caught.value.reason == "not_due"
    with pytest.raises(NotFound):
        await app.claim(id="nothing")
    other = await app.enqueue("t")
    assert (await claimed(app, id=other.id)).id == other.id


async def test_claim_waits_until_a_job_comes(app: App) -> None:
    waiting = asyncio.create_task(app.claim(wait=60))
    await asyncio.sleep(0)
    job = await app.enqueue("t")
    claim = await waiting
    assert claim is not None
    assert claim.id == job.id


async def test_claimed_takes_up_a_claim_from_elsewhere(app: App) -> None:
    await app.enqueue("t", {"a": 1})
    first = await claimed(app)
    claim = app.claimed(first.id, fence=first.fence, lease_token=first.lease_token)
    with pytest.raises(dibs.WrongState, match="load"):
        _ = claim.params
    await claim.extend()
    assert (await claim.load()).lease_token == first.lease_token
    assert claim.params == {"a": 1}
    await claim.fail("elsewhere", retryable=False)
    job = await app.get(first.id)
    assert job is not None
    assert job.status is Status.FAILED


async def test_claimed_with_another_token_is_lost(app: App) -> None:
    await app.enqueue("t")
    first = await claimed(app)
    claim = app.claimed(first.id, fence=first.fence, lease_token="x" * 24)
    with pytest.raises(dibs.LeaseLost):
        await claim.complete()
    with pytest.raises(dibs.LeaseLost):
        await app.claimed("nothing", fence=1, lease_token="x").load()
    with pytest.raises(dibs.LeaseLost):
        async with app.claimed(first.id, fence=2, lease_token=first.lease_token):
            pytest.fail("entered another's claim")
    with pytest.raises(dibs.LeaseLost):
        async with app.claimed(first.id, fence=first.fence, lease_token="x" * 24):
            pytest.fail("entered under a wrong token")
    await first.complete()


async def test_claimed_has_a_full_lease_from_when_it_is_taken_up(app: App, clock: FakeClock) -> None:
    await app.enqueue("t")
    first = await claimed(app, lease=30)
    clock.advance(29)
    async with app.claimed(first.id, fence=first.fence, lease_token=first.lease_token) as claim:
        assert claim.job.lease_expires_us == clock.now() + 30_000_000


async def test_claimed_is_not_entered_while_no_one_can_say_whose_it_is(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    await app.enqueue("t")
    first = await claimed(app)

    async def busy(extensions: Sequence[Extension]) -> list[Outcome]:
        return [Outcome.BUSY for _ in extensions]

    monkeypatch.setattr(app.runtime.broker(), "extend", busy)
    claim = app.claimed(first.id, fence=first.fence, lease_token=first.lease_token)
    with pytest.raises(dibs.StoreUnavailable, match="row"):
        await claim.load()
    assert not claim.lost


async def test_options_come_from_the_call_then_the_task_then_the_app(url: str) -> None:
    async with App(url, max_attempts=7, lease=60) as app:

        @app.task(queue="mail", max_attempts=5, tags=["a"])
        def send(to: str) -> None: ...

        by_name = await app.enqueue("send", {"to": "x"})
        assert (by_name.queue, by_name.max_attempts, by_name.tags) == ("mail", 5, ("a",))
        assert by_name.terms.lease_us == 60_000_000
        given = await app.enqueue("send", {"to": "x"}, max_attempts=1, queue="other")
        assert (given.queue, given.max_attempts) == ("other", 1)
        [many, own] = await app.enqueue_many([NewJob("send", {}), NewJob("send", {}, queue="q", tags=["b"])])
        assert (many.queue, many.max_attempts, own.queue, own.tags) == ("mail", 5, "q", ("b",))
        assert (await app.enqueue("unknown")).max_attempts == 7


async def test_operator_calls(app: App) -> None:
    jobs = await app.enqueue_many([NewJob("t", queue="q") for _ in range(3)])
    await app.pause("q", by="ada")
    assert await app.claim() is None
    assert (await app.explain(jobs[0].id)).code == "paused"
    assert [(queue.queue, queue.paused) for queue in await app.queues()] == [("q", True)]
    await app.resume("q")
    assert (await app.cancel(jobs[0].id, by="ada")).changed == 1
    assert (await app.log(jobs[0].id))[-1].actor == "ada"
    assert (await app.redrive(jobs[0].id)).changed == 1
    claim = await claimed(app, worker_id="w")
    assert [(worker.worker_id, worker.active_tasks) for worker in await app.workers()] == [("w", 1)]
    await claim.fail("x", retryable=False)
    where = dibs.Filter(queue="q")
    assert (await app.redrive(where=where, dry_run=True)).matched == 1
    assert (await app.purge(where=where)).changed == 1
    assert (await app.counts("q")).pending == 2
    assert (await app.counts()).unfinished == 2
    assert isinstance(await app.migrate(dry_run=True), list)


def test_app_opens_nothing_before_its_first_use(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path / 'jobs.db'}")
    assert not list(tmp_path.iterdir())
    app.sync.enqueue("t")
    assert list(tmp_path.iterdir())
    app.sync.close()


def test_app_reads_its_store_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIBS_STORE", f"sqlite:///{tmp_path / 'env.db'}")
    with App().sync as queue:
        queue.enqueue("t")
    assert (tmp_path / "env.db").exists()
    monkeypatch.delenv("DIBS_STORE")
    assert App().url == "sqlite:///dibs.db"


@pytest.mark.parametrize(
    "url", ["httpx://localhost:8642", "mysql://a@b", "redis://b/x", "redis+cluster://b/1", "jobs.db", "", "nothing://"]
)
async def test_a_url_without_a_store_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest, match="url"):
        await App(url).enqueue("t")


@pytest.mark.parametrize("url", ["memory://", "sqlite:///jobs.db", "httpx://host"])
def test_an_api_key_is_refused_where_it_means_nothing(url: str) -> None:
    with pytest.raises(InvalidRequest, match="api_key") as caught:
        App(url, api_key="s3cret")
    assert "s3cret" not in str(caught.value)
    for address in ("http://host:8642", "https://host"):
        assert App(address, api_key="s3cret").url == address


def test_unknown_settings_are_refused_all_at_once() -> None:
    with pytest.raises(InvalidRequest) as caught:
        App("memory://", lease=-1, colour="red", queue="../")  # type: ignore[call-arg]
    assert set(caught.value.fields) == {"lease", "colour", "queue"}


async def test_app_can_be_used_again_after_close(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path / 'jobs.db'}")
    job = await app.enqueue("t")
    await app.close()
    await app.close()
    assert await app.get(job.id) is not None
    await app.close()


def test_app_works_in_any_loop_and_thread(url: str) -> None:
    app = App(url)
    asyncio.run(_use(app))
    asyncio.run(_use(app))
    threads = [threading.Thread(target=lambda: asyncio.run(_use(app))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert app.sync.counts().completed == 6
    app.sync.close()


async def _use(app: App) -> None:
    job = await app.enqueue("t")
    claim = await app.claim(id=job.id)
    assert claim is not None
    async with claim:
        await asyncio.sleep(0)


async def test_default_worker_id_names_host_and_process(app: App) -> None:
    await app.enqueue("t")
    claim = await claimed(app)
    assert claim.job.worker_id is not None
    assert re.fullmatch("[a-zA-Z0-9_-]{1,128}", claim.job.worker_id)
    assert claim.job.worker_id.endswith(f"-{os.getpid()}")


def test_repr_shows_no_password() -> None:
    assert "secret" not in repr(App("postgresql://me:secret@host/db"))


async def test_repr_of_a_job_is_one_line_and_shows_no_token(app: App) -> None:
    await app.enqueue("mail", {"to": "someone"}, queue="slow", id="a")
    claim = await app.claim()
    assert claim is not None
    assert claim.lease_token
    text = "<Job 'a' of task 'mail' in queue 'slow', claimed, attempts 0 of 3, fence 1>"
    assert repr(claim.job) == str(claim.job) == text
    await claim.complete()
