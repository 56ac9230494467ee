"""When the server, its connections or other transactions get in the way: told, survived, and over by itself."""

import asyncio
import importlib
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import dibs
from dibs.clock import Clock, FakeClock
from dibs.domain import transitions
from dibs.domain.errors import StoreUnavailable
from dibs.domain.job import Extension, Outcome, Ref, Status
from dibs.store import Refusal, Written
from dibs.testing.conformance.builders import (
    claim,
    claim_one,
    completed,
    enqueue,
    enqueue_and_claim,
    ids,
    new_job,
    new_jobs,
    one,
    read,
    settle,
)
from tests.stores.servers.kinds import Kind, Own, ServerStore, until


async def soon(call: Callable[[], Awaitable[Any]], seconds: float = 20.0) -> Any:
    """Call until the store is back."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while True:
        try:
            return await call()
        except StoreUnavailable:
            assert loop.time() < end, "still unavailable"
            await asyncio.sleep(0.05)


async def test_the_server_s_clock_rules(kind: Kind, real: ServerStore, own: Own) -> None:
    before = await own.value(kind.now)
    [job] = await enqueue(real, new_job())
    after = await own.value(kind.now)

    assert before <= job.created_us <= after
    assert (await claim_one(real)).id == job.id


async def test_every_connection_is_killed_and_work_goes_on(kind: Kind, real: ServerStore, own: Own) -> None:
    await enqueue(real, *new_jobs(20))
    done: list[str] = []
    for _ in range(5):
        [job] = await soon(lambda: claim(real, limit=1))
        assert await kind.kill(own, kind.ours) >= 1
        assert await soon(lambda job=job: settle(real, completed(job))) == [Outcome.APPLIED]  # type: ignore[misc]
        done.append(job.id)

    assert len(set(done)) == 5
    assert (await real.counts()).completed == 5


async def test_what_was_leased_before_a_claim_failed_is_returned(
    kind: Kind, real: ServerStore, own: Own, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two requests that want different things are two transactions: the first is done when the second one fails."""
    await enqueue(real, new_job("a", queue="first"), new_job("b", queue="second"))
    claiming = importlib.import_module(type(real).__module__.removesuffix("store") + "claiming")
    plain, calls = claiming._claim_best, 0

    async def claim_best(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 1:
            await kind.kill(own, kind.ours)
        return await plain(*args)

    monkeypatch.setattr(claiming, "_claim_best", claim_best)
    first, second = await real.claim([one(queues=("first",)), one(queues=("second",))])

    assert (ids(first), ids(second)) == (["a"], [])
    assert (await read(real, "b")).status is Status.PENDING


async def test_a_connection_that_is_killed_in_a_call_is_told(kind: Kind, real: ServerStore, own: Own, url: str) -> None:
    job = await enqueue_and_claim(real, new_job())
    killer = await kind.connected(url)
    await kind.hold(own)
    running = asyncio.ensure_future(settle(real, completed(job)))
    await until(killer, kind.blocked)
    assert await kind.kill(killer, kind.blocked) == 1
    with pytest.raises(StoreUnavailable):
        await running
    await kind.let_go(own)
    await killer.close()

    assert await settle(real, completed(job)) == [Outcome.APPLIED]


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_the_server_restarts_and_work_goes_on(kind: Kind) -> None:
    with kind.private() as (server, url):
        store = kind.store(url, Clock())
        await store.migrate()
        for mode in ("fast", "immediate"):
            held = await enqueue_and_claim(store, new_job(queue="held"), queues=("held",))
            await enqueue(store, *new_jobs(3))
            waiting = asyncio.ensure_future(store.wait(one(queues=("other",)), 60))
            await asyncio.sleep(0.1)
            await asyncio.to_thread(server.stop, mode)
            with pytest.raises(StoreUnavailable):
                await claim(store)
            await asyncio.to_thread(server.start)

            assert await soon(lambda held=held: settle(store, completed(held))) == [Outcome.APPLIED]  # type: ignore[misc]
            assert len(await soon(lambda: claim(store, limit=10))) == 3
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        other = kind.store(url, Clock())
        assert (await other.counts()).claimed == 6
        await other.close()
        await store.close()


async def test_no_server_is_told_and_the_password_is_not(kind: Kind) -> None:
    store = kind.store(f"{kind.name}://nobody:hush@127.0.0.1:1/none", Clock())
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1/none") as caught:
        await store.open()
    assert "hush" not in f"{caught.value!r} {caught.value.__cause__!r}"
    await store.close()


async def test_a_short_lease_is_noticed_though_no_one_was_late_a_moment_ago(real: ServerStore) -> None:
    await enqueue(real, new_job())
    assert await real.expired(10) == []
    job = await claim_one(real, lease=0.05)
    await asyncio.sleep(0.1)

    assert ids(await real.expired(10)) == [job.id]


async def test_a_claim_whose_caller_gave_up_is_given_back(url: str) -> None:
    async with dibs.App(url) as app:
        await app.enqueue("t", id="a")
        for n in range(20):
            running = asyncio.ensure_future(app.claim())
            await asyncio.sleep(0.0004 * n)
            running.cancel()
            [claim_] = await asyncio.gather(running, return_exceptions=True)
            if isinstance(claim_, dibs.Claim):
                await claim_.release()
        job = await app.get("a")
        while job is not None and job.status is not Status.PENDING:
            await asyncio.sleep(0.01)
            job = await app.get("a")
        assert job is not None
        assert (await app.verify()).ok


async def test_many_who_wait_for_a_user_leave_connections_for_others(kind: Kind, url: str, own: Own) -> None:
    store = kind.store(f"{url}?pool=2", Clock())
    await own.begin()
    await store.insert([[new_job("a", unique_key="mine")]], connection=own.connection)
    waiting = [asyncio.ensure_future(enqueue(store, new_job(unique_key="mine"))) for _ in range(5)]
    await asyncio.sleep(0.3)

    assert await asyncio.wait_for(claim(store), 5) == []
    await own.commit()
    assert {job.id for [job] in await asyncio.gather(*waiting)} == {"a"}
    await store.close()


# Rows that another transaction holds


async def hold(own: Own, *names: str) -> None:
    """Lock jobs until the end of a transaction."""
    await own.begin()
    for id in names:
        assert len(await own.run(f"SELECT seq FROM dibs_job WHERE id = '{id}' FOR UPDATE")) == 1


async def test_a_row_that_another_transaction_holds_is_busy(store: ServerStore, own: Own) -> None:
    held, free = await enqueue_and_claim(store, new_job("held")), await enqueue_and_claim(store, new_job("free"))
    await hold(own, "held")

    assert await store.write([completed(held), completed(free)]) == [
        Written(Outcome.BUSY, Status.CLAIMED),
        Written(Outcome.APPLIED, Status.COMPLETED),
    ]
    assert await store.extend([Extension(held.ref)]) == [Outcome.BUSY]
    stale = Extension(Ref("held", held.fence, "wrong"))
    assert await store.extend([stale]) == [Outcome.LOST]
    assert (await store.write([transitions.cancel("held")]))[0].outcome is Outcome.BUSY
    await own.rollback()

    assert await settle(store, completed(held)) == [Outcome.APPLIED]


async def test_a_claim_and_a_reap_pass_by_what_is_held(store: ServerStore, own: Own, clock: FakeClock) -> None:
    await enqueue(store, *(new_job(id) for id in "abc"))
    late = await claim_one(store, lease=1)
    clock.advance(2)
    await hold(own, "a", "b")

    assert ids(await claim(store)) == ["c"]
    assert [write.outcome for write in await store.write([transitions.expire(late, clock.random)])] == ["busy"]
    assert await store.prune(100) == 0
    await own.rollback()

    clock.advance(2)
    assert ids(await claim(store)) == ["b"]


async def test_a_claim_finds_other_lanes_while_the_best_is_held(store: ServerStore, own: Own) -> None:
    await enqueue(store, new_job("best", priority=9), *new_jobs(3, task="other"))
    await hold(own, "best")

    assert len(await claim(store, limit=1)) == 1
    assert len(await claim(store, limit=2)) == 2
    await own.rollback()


async def test_an_enqueue_waits_alone_for_another_s_open_transaction(store: ServerStore, own: Own) -> None:
    await own.begin()
    await store.insert([[new_job("a", unique_key="mine")]], connection=own.connection)

    began = time.monotonic()
    busy, free = await store.insert([[new_job("b", unique_key="mine")], [new_job("c")]])
    assert isinstance(busy, Refusal)
    assert busy.busy
    assert not isinstance(free, Refusal)
    assert time.monotonic() - began < 1, "no one waited"

    alone = asyncio.ensure_future(enqueue(store, new_job("b", unique_key="mine")))
    await asyncio.sleep(0.2)
    assert not alone.done()
    await own.commit()
    [duplicate] = await alone
    assert (duplicate.id, duplicate.was_duplicate) == ("a", True)


# Deadlocks


@pytest.mark.slow
async def test_no_deadlock_reaches_anyone(kind: Kind, url: str) -> None:
    """All verbs on the same rows, in opposite orders, from many sessions."""
    stores = [kind.store(f"{url}?pool=4", Clock()) for _ in range(3)]
    drafts = new_jobs(40, max_attempts=1000, keep=0.01)
    names = ids(drafts)
    keyed = [[new_job(idempotency_key=f"{turn}-{n}") for n in range(20)] for turn in range(10)]
    await enqueue(stores[0], *drafts)
    end = asyncio.get_running_loop().time() + 4

    async def settle_and_extend(store: ServerStore, step: int) -> int:
        ended = 0
        while asyncio.get_running_loop().time() < end:
            jobs = (await claim(store, limit=25, lease=0.001))[::step]
            await store.extend([Extension(job.ref) for job in jobs])
            written = await store.write(
                [completed(job) if n % 3 else transitions.release(job.ref) for n, job in enumerate(jobs)]
            )
            ended += len(written)
            await enqueue(store, *(new_job(id, max_attempts=1000, keep=0.01) for id in names[::step]))
        return ended

    async def operate(store: ServerStore, step: int) -> int:
        while asyncio.get_running_loop().time() < end:
            late = (await store.expired(100))[::step]
            await store.write([transitions.expire(job, store._clock.random) for job in late])
            await store.write([transitions.cancel(id) for id in names[::step]])
            await store.write([transitions.redrive(id) for id in names[::-step]])
            await store.prune(100)
        return 0

    async def name(store: ServerStore, step: int) -> int:
        for group in keyed:
            await store.insert([group[::step]])
        return 0

    work = [f(store, step) for store in stores for step in (1, -1) for f in (settle_and_extend, operate, name)]
    ended = await asyncio.gather(*work)

    assert sum(ended) > 0
    assert [job.was_duplicate for group in keyed for job in await enqueue(stores[0], *group)] == [True] * 200
    for store in stores:
        await store.close()


# Callers who give up


async def test_a_cancelled_claim_leaves_nothing_behind(kind: Kind, url: str) -> None:
    store = kind.store(f"{url}?pool=1", Clock())
    await enqueue(store, *new_jobs(400))
    taken: set[str] = set()
    for pause in [0.0002 * (n % 10) for n in range(30)] + [0.0004 * (n % 20) for n in range(40)]:
        running = asyncio.ensure_future(claim(store, limit=3))
        await asyncio.sleep(pause)
        running.cancel()
        for job in await asyncio.gather(running, return_exceptions=True):
            taken.update(() if isinstance(job, BaseException) else ids(job))
        assert await store.get(["none"]) == [None], "not the rows of the claim before"
        jobs = await claim(store, limit=2)
        assert len(jobs) == 2
        assert not taken & set(ids(jobs))
        taken.update(ids(jobs))
        assert await settle(store, *map(completed, jobs)) == [Outcome.APPLIED] * 2
    await store.close()


async def test_a_cancelled_claim_rolls_back_or_commits_whole(kind: Kind, url: str) -> None:
    """What was leased to no one is leased, and logged, all the same; or nothing has happened at all."""
    store = kind.store(f"{url}?pool=1", Clock())
    await enqueue(store, *new_jobs(61))
    for n in range(20):
        running = asyncio.ensure_future(claim(store, limit=3))
        await asyncio.sleep(0.0005 * n)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    await claim(store, limit=1)
    found = [
        (job.status, job.fence, [str(event.event) for event in log])
        for job, log in (await store.audit(None, 100)).items
        if job is not None
    ]
    pending, claimed = (Status.PENDING, 0, ["enqueued"]), (Status.CLAIMED, 1, ["enqueued", "claimed"])

    assert found.count(claimed) >= 1
    assert found.count(pending) + found.count(claimed) == 61
    await store.close()


async def test_a_connection_that_is_given_up_half_way_is_closed(kind: Kind, url: str, own: Own) -> None:
    before = await own.run(kind.ours)
    for n in range(150):
        connecting = asyncio.ensure_future(kind.link(url))
        for _ in range(n % 30):
            await asyncio.sleep(0)
        await asyncio.sleep(0.0001 * (n % 5))
        connecting.cancel()
        for link in await asyncio.gather(connecting, return_exceptions=True):
            if not isinstance(link, BaseException):
                await link.close()

    # A busy server may still be beginning to serve some of them; what is never closed would stay for good.
    async with asyncio.timeout(20):
        while await own.run(kind.ours) != before:  # noqa: ASYNC110 - the server rings no bell
            await asyncio.sleep(0.02)


async def test_a_place_that_is_known_to_be_empty_is_forgotten_after_a_second(
    kind: Kind, store: ServerStore, url: str, clock: FakeClock
) -> None:
    """A job that comes back on another machine lies behind the place that this one remembers."""
    await enqueue(store, *(new_job(id) for id in "abc"))
    clock.advance(10)
    first = await claim_one(store)
    await claim_one(store)
    other = kind.store(url, clock)
    await settle(other, transitions.release(first.ref))
    await other.close()

    assert (await claim_one(store)).id in {"a", "c"}
    clock.advance(1)
    assert (await claim_one(store)).id in {"a", "c"}
    assert (await read(store, "a")).fence == 2
