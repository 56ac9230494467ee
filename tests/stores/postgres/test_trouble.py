"""When the server, its connections or other transactions get in the way: told, survived, and over by itself."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import pytest

import dibs
from dibs.clock import Clock, FakeClock
from dibs.domain import transitions
from dibs.domain.errors import StoreUnavailable
from dibs.domain.job import Extension, Outcome, Ref, Status
from dibs.store import Refusal, Written
from dibs.stores.postgres import PostgresStore
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
from tests.servers import postgres

KILL = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'dibs'"""


async def soon(call: Callable[[], Awaitable[Any]], seconds: float = 10.0) -> Any:
    """Call until the store is back."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while True:
        try:
            return await call()
        except StoreUnavailable:
            assert loop.time() < end, "still unavailable"
            await asyncio.sleep(0.05)


@pytest.fixture
async def real(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url, Clock())
    yield store
    await store.close()


async def test_the_database_s_clock_rules(real: PostgresStore, own: asyncpg.Connection) -> None:
    before = await own.fetchval("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
    [job] = await enqueue(real, new_job())
    after = await own.fetchval("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")

    assert before <= job.created_us <= after
    assert (await claim_one(real)).id == job.id


async def test_every_connection_is_terminated_and_work_goes_on(real: PostgresStore, own: asyncpg.Connection) -> None:
    await enqueue(real, *new_jobs(20))
    done: list[str] = []
    for _ in range(5):
        [job] = await soon(lambda: claim(real, limit=1))
        await own.execute(KILL)
        assert await soon(lambda job=job: settle(real, completed(job))) == [Outcome.APPLIED]  # type: ignore[misc]
        done.append(job.id)

    assert len(set(done)) == 5
    assert (await real.counts()).completed == 5


async def test_a_connection_that_is_cut_in_a_call_is_told(real: PostgresStore, own: asyncpg.Connection) -> None:
    job = await enqueue_and_claim(real, new_job())
    async with own.transaction():
        await own.execute("LOCK TABLE dibs_job IN ACCESS EXCLUSIVE MODE")
        running = asyncio.ensure_future(settle(real, completed(job)))
        await asyncio.sleep(0.1)
        await own.execute(KILL)
        with pytest.raises(StoreUnavailable):
            await running

    assert await settle(real, completed(job)) == [Outcome.APPLIED]


@pytest.mark.slow
async def test_the_server_restarts_and_work_goes_on() -> None:
    with postgres.private() as server:
        store = PostgresStore(server.url, Clock())
        await store.migrate()
        held = await enqueue_and_claim(store, new_job())
        await enqueue(store, *new_jobs(3))
        waiting = asyncio.ensure_future(store.wait(one(queues=("other",)), 60))
        await asyncio.sleep(0.1)
        await asyncio.to_thread(server.stop)
        with pytest.raises(StoreUnavailable):
            await claim(store)
        await asyncio.to_thread(server.start)

        assert await soon(lambda: settle(store, completed(held))) == [Outcome.APPLIED]
        assert len(await soon(lambda: claim(store))) == 3
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await store.close()


async def test_no_server_is_told() -> None:
    store = PostgresStore("postgresql://nobody@127.0.0.1:1/none", Clock())
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1/none"):
        await store.open()
    await store.close()


async def test_a_short_lease_is_noticed_though_no_one_was_late_a_moment_ago(real: PostgresStore) -> None:
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


async def test_many_who_wait_for_a_user_leave_connections_for_others(url: str, own: asyncpg.Connection) -> None:
    store = PostgresStore(f"{url}?pool=2", Clock())
    transaction = own.transaction()
    await transaction.start()
    await store.insert([[new_job("a", unique_key="mine")]], connection=own)
    waiting = [asyncio.ensure_future(enqueue(store, new_job(unique_key="mine"))) for _ in range(5)]
    await asyncio.sleep(0.3)

    assert await asyncio.wait_for(claim(store), 5) == []
    await transaction.commit()
    assert {job.id for [job] in await asyncio.gather(*waiting)} == {"a"}
    await store.close()


# Rows that another transaction holds


async def test_a_row_that_another_transaction_holds_is_busy(store: PostgresStore, own: asyncpg.Connection) -> None:
    held, free = await enqueue_and_claim(store, new_job("held")), await enqueue_and_claim(store, new_job("free"))
    async with own.transaction():
        await own.execute("SELECT FROM dibs_job WHERE id = 'held' FOR UPDATE")

        assert await store.write([completed(held), completed(free)]) == [
            Written(Outcome.BUSY, Status.CLAIMED),
            Written(Outcome.APPLIED, Status.COMPLETED),
        ]
        assert await store.extend([Extension(held.ref)]) == [Outcome.BUSY]
        stale = Extension(Ref("held", held.fence, "wrong"))
        assert await store.extend([stale]) == [Outcome.LOST]
        assert (await store.write([transitions.cancel("held")]))[0].outcome is Outcome.BUSY

    assert await settle(store, completed(held)) == [Outcome.APPLIED]


async def test_a_claim_and_a_reap_pass_by_what_is_held(
    store: PostgresStore, own: asyncpg.Connection, clock: FakeClock
) -> None:
    await enqueue(store, *(new_job(id) for id in "abc"))
    late = await claim_one(store, lease=1)
    clock.advance(2)
    async with own.transaction():
        await own.execute("SELECT FROM dibs_job WHERE id IN ('a', 'b') FOR UPDATE")

        assert ids(await claim(store)) == ["c"]
        assert [write.outcome for write in await store.write([transitions.expire(late, clock.random)])] == ["busy"]
        assert await store.prune(100) == 0

    clock.advance(2)
    assert ids(await claim(store)) == ["b"]


async def test_a_claim_finds_other_lanes_while_the_best_is_held(store: PostgresStore, own: asyncpg.Connection) -> None:
    await enqueue(store, new_job("best", priority=9), *new_jobs(3, task="other"))
    async with own.transaction():
        await own.execute("SELECT FROM dibs_job WHERE id = 'best' FOR UPDATE")

        assert len(await claim(store, limit=1)) == 1
        assert len(await claim(store, limit=2)) == 2


async def test_an_enqueue_waits_alone_for_another_s_open_transaction(
    store: PostgresStore, own: asyncpg.Connection
) -> None:
    transaction = own.transaction()
    await transaction.start()
    await store.insert([[new_job("a", unique_key="mine")]], connection=own)

    busy, free = await store.insert([[new_job("b", unique_key="mine")], [new_job("c")]])
    assert isinstance(busy, Refusal)
    assert busy.busy
    assert not isinstance(free, Refusal)

    alone = asyncio.ensure_future(enqueue(store, new_job("b", unique_key="mine")))
    await asyncio.sleep(0.2)
    assert not alone.done()
    await transaction.commit()
    [duplicate] = await alone
    assert (duplicate.id, duplicate.was_duplicate) == ("a", True)


# Deadlocks


@pytest.mark.slow
async def test_no_deadlock_reaches_anyone(url: str) -> None:
    """All verbs on the same rows, in opposite orders, from many sessions."""
    stores = [PostgresStore(f"{url}?pool=4", Clock()) for _ in range(3)]
    drafts = new_jobs(40, max_attempts=1000, keep=0.01)
    names = ids(drafts)
    keyed = [[new_job(idempotency_key=f"{turn}-{n}") for n in range(20)] for turn in range(10)]
    await enqueue(stores[0], *drafts)
    end = asyncio.get_running_loop().time() + 4

    async def settle_and_extend(store: PostgresStore, step: int) -> int:
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

    async def operate(store: PostgresStore, step: int) -> int:
        while asyncio.get_running_loop().time() < end:
            late = (await store.expired(100))[::step]
            await store.write([transitions.expire(job, store._clock.random) for job in late])
            await store.write([transitions.cancel(id) for id in names[::step]])
            await store.write([transitions.redrive(id) for id in names[::-step]])
            await store.prune(100)
        return 0

    async def name(store: PostgresStore, step: int) -> int:
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


async def test_a_cancelled_claim_leaves_nothing_behind(url: str) -> None:
    store = PostgresStore(f"{url}?pool=1", Clock())
    await enqueue(store, *new_jobs(300))
    taken: set[str] = set()
    for n in range(30):
        running = asyncio.ensure_future(claim(store, limit=3))
        await asyncio.sleep(0.0002 * (n % 10))
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


async def test_a_place_that_is_known_to_be_empty_is_forgotten_after_a_second(
    store: PostgresStore, url: str, clock: FakeClock
) -> None:
    """A job that comes back on another machine lies behind the place that this one remembers."""
    await enqueue(store, *(new_job(id) for id in "abc"))
    clock.advance(10)
    first = await claim_one(store)
    await claim_one(store)
    other = PostgresStore(url, clock)
    await settle(other, transitions.release(first.ref))
    await other.close()

    assert (await claim_one(store)).id in {"a", "c"}
    clock.advance(1)
    assert (await claim_one(store)).id in {"a", "c"}
    assert (await read(store, "a")).fence == 2
