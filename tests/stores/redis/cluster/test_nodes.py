"""Slots that move, masters that change, scripts that are forgotten, in the middle of claims: work goes on."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from random import Random

import pytest

import dibs
from dibs.clock import Clock
from dibs.domain import transitions
from dibs.domain.errors import StoreUnavailable
from dibs.domain.job import Job, Status
from dibs.store import Store
from dibs.stores.redis import ClusterStore
from dibs.stores.redis.cluster.shards import SHARDS, TAGS, home, slot_of
from dibs.testing.conformance.builders import claim, completed, enqueue, find, new_job, new_jobs, one, settle
from tests.servers import cluster, redis, valkey
from tests.stores.redis.cluster.patience import again


@pytest.fixture(scope="module", params=["redis", pytest.param("valkey", marks=pytest.mark.long)])
def six(request: pytest.FixtureRequest) -> Iterator[cluster.Server]:
    """One cluster for the tests of this file; each leaves it whole."""
    with cluster.private(binary=redis.program() if request.param == "redis" else valkey.program()) as server:
        yield server


@pytest.fixture
def url(six: cluster.Server, request: pytest.FixtureRequest) -> str:
    return f"{six.url}?timeout=2&prefix={request.node.originalname[5:60]}"


@pytest.fixture
async def store(url: str) -> AsyncIterator[ClusterStore]:
    store = ClusterStore(url, Clock())
    yield store
    await store.close()


async def work(store: Store, idle: asyncio.Event, done: dict[str, int]) -> None:
    """Claim and settle until nothing is left and no one wants more; count how often each was completed."""
    while True:
        late = await again(lambda: store.expired(100))  # claims whose replies were lost
        await again(lambda late=late: store.write([transitions.expire(job, Random(0)) for job in late]))  # type: ignore[misc]
        jobs: list[Job] = await again(lambda: claim(store, limit=7, lease=2))
        for job in jobs:
            [outcome] = await again(lambda job=job: settle(store, completed(job)))  # type: ignore[misc]
            if outcome in {"applied", "repeated"}:  # the reply to the first try was lost, perhaps
                done[job.id] = done.get(job.id, 0) + 1
        if not jobs and idle.is_set() and (await again(store.counts)).unfinished == 0:
            return
        if not jobs:
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def at_work(url: str, number: int = 200) -> AsyncIterator[dict[str, int]]:
    """Workers and a producer, while something happens; in the end every job that was acknowledged was done once."""
    stores = [ClusterStore(url, Clock()) for _ in range(3)]
    idle, done, sent = asyncio.Event(), dict[str, int](), list[str]()
    workers = [asyncio.ensure_future(work(store, idle, done)) for store in stores[1:]]

    async def produce() -> None:
        for n in range(number):
            draft = new_job(f"job-{n}", queue=f"q{n % 7}", unique_key=f"u-{n}")
            await again(lambda draft=draft: enqueue(stores[0], draft))  # type: ignore[misc]
            sent.append(draft.id)
            await asyncio.sleep(0.002)

    producing = asyncio.ensure_future(produce())
    yield done
    await producing
    idle.set()
    await asyncio.gather(*workers)
    left = [job for job in await find(stores[0], limit=1000) if job.status is not Status.COMPLETED]
    assert left == []
    assert done == dict.fromkeys(sent, 1)
    for store in stores:
        await store.close()


def test_shards_are_spread_evenly() -> None:
    """On three masters, and on others that are not too many; a queue's parts are on all of them."""
    for masters in (1, 2, 3, 4, 6):
        share = cluster.SLOTS // masters
        on = [min(slot_of(tag) // share, masters - 1) for tag in TAGS]
        assert {on.count(master) for master in range(masters)} == {SHARDS // masters}
    assert all(slot_of(tag) == cluster.Server.slot_of(f"a:{{{tag}}}:b") for tag in TAGS)


async def test_slots_that_move_in_the_middle_of_claims(six: cluster.Server, url: str) -> None:
    masters = six.masters
    async with at_work(url) as done:
        for n, tag in enumerate(TAGS[::4]):
            while len(done) < 20 * n:  # noqa: ASYNC110 - others do that
                await asyncio.sleep(0.01)
            slot = slot_of(tag)
            to = next(node for node in masters if node is not six.master_of(slot))
            await asyncio.to_thread(six.move, slot, to)


async def test_a_slot_half_of_which_has_moved_is_waited_for(six: cluster.Server, store: ClusterStore) -> None:
    """Neither its old place nor its new one serves a script then: it is asked for again until it is whole."""
    await enqueue(store, *new_jobs(3, queue="q"))
    slot = slot_of(TAGS[home("q")])
    to = next(node for node in six.masters if node is not six.master_of(slot))
    await asyncio.to_thread(six.begin_move, slot, to)
    await asyncio.to_thread(six.move_keys, slot, to, 3)
    claiming = asyncio.ensure_future(claim(store, queues=("q",)))
    await asyncio.sleep(0.3)
    assert not claiming.done()
    await asyncio.to_thread(six.move_keys, slot, to, 100)
    await asyncio.to_thread(six.end_move, slot, to)

    assert len(await claiming) == 3


async def test_a_slot_that_stays_half_moved_is_told_in_time(six: cluster.Server, store: ClusterStore) -> None:
    await enqueue(store, *new_jobs(3, queue="q"))
    slot = slot_of(TAGS[home("q")])
    to = next(node for node in six.masters if node is not six.master_of(slot))
    await asyncio.to_thread(six.begin_move, slot, to)
    await asyncio.to_thread(six.move_keys, slot, to, 3)
    with pytest.raises(StoreUnavailable, match="from one node to another"):
        await claim(store, queues=("q",))
    await asyncio.to_thread(six.move_keys, slot, to, 100)
    await asyncio.to_thread(six.end_move, slot, to)
    assert len(await claim(store, queues=("q",))) == 3


async def test_a_master_that_is_failed_over_in_the_middle_of_claims(six: cluster.Server, url: str) -> None:
    async with at_work(url) as done:
        for n in range(2):
            while len(done) < 40 * (n + 1):  # noqa: ASYNC110 - others do that
                await asyncio.sleep(0.01)
            await asyncio.to_thread(six.fail_over, six.master_of(slot_of(TAGS[home("q1")])))
    await asyncio.to_thread(six.await_whole)


async def test_scripts_that_are_flushed_in_the_middle_of_claims(six: cluster.Server, url: str) -> None:
    async with at_work(url, 100) as done:
        for n in range(3):
            while len(done) < 20 * (n + 1):  # noqa: ASYNC110 - others do that
                await asyncio.sleep(0.01)
            for node in six.masters:
                await asyncio.to_thread(node.ask, "SCRIPT", "FLUSH")


async def test_who_waits_hears_of_a_job_on_any_master_also_after_a_failover(six: cluster.Server, url: str) -> None:
    waiting, producing = ClusterStore(url, Clock()), ClusterStore(url, Clock())
    queues = {home(name): name for name in (f"q{n}" for n in range(200))}  # one at home in each shard
    assert len(queues) == SHARDS

    async def woken(queue: str) -> float:
        began = asyncio.ensure_future(waiting.wait(one(queues=(queue,)), 30))
        await asyncio.sleep(0.05)
        assert not began.done()
        at = time.monotonic()
        await enqueue(producing, new_job(queue=queue))
        await began
        await claim(waiting, queues=(queue,))
        return time.monotonic() - at

    async def until_it_listens() -> None:
        site = waiting._sites.here()
        while not site.listening():  # noqa: ASYNC110 - other tasks see to that
            await asyncio.sleep(0.05)

    await waiting.open()
    await until_it_listens()
    assert max([await woken(queue) for queue in queues.values()]) < 1.5  # they poll every five seconds
    assert len(waiting._sites.here()._listeners) == 3  # a connection for each master, not for each shard
    await asyncio.to_thread(six.fail_over, six.master_of(slot_of(TAGS[home(queues[0])])))
    await again(lambda: claim(waiting))  # it has been told that a shard is elsewhere
    await until_it_listens()
    assert max([await woken(queue) for queue in queues.values()]) < 1.5
    await asyncio.to_thread(six.await_whole)
    await waiting.close()
    await producing.close()


async def test_claims_go_on_while_a_master_is_away(six: cluster.Server, store: ClusterStore) -> None:
    """Its jobs are not handed out, the others are, if the cluster is set up so; who asks for its jobs alone is told."""
    for node in six.nodes:
        node.ask("CONFIG", "SET", "cluster-require-full-coverage", "no")
    away = six.masters[0]
    there = [name for name in (f"q{n}" for n in range(60)) if six.master_of(slot_of(TAGS[home(name)])) is not away]
    gone = [name for name in (f"q{n}" for n in range(60)) if six.master_of(slot_of(TAGS[home(name)])) is away]
    await enqueue(store, *(new_job(queue=name) for name in (*there, *gone)))
    replica = six.replica_of(away)
    away.pause()
    replica.pause()  # so that no one takes over
    try:
        claims = [await again(lambda: claim(store, limit=100, lease=1)) for _ in range(2)]
        got = [job for jobs in claims for job in jobs]
        assert sorted(job.queue for job in got) == sorted(there)
        assert await settle(store, *map(completed, got)) == ["applied"] * len(got)
        with pytest.raises(StoreUnavailable):
            await claim(store, queues=(gone[0],), lease=1)
    finally:
        replica.resume()
        away.resume()
    await asyncio.to_thread(six.await_whole)
    rest: list[str] = []
    async with asyncio.timeout(20):  # claims that it was sent while it stood still were made, and their leases run out
        while len(rest) < len(gone):
            late = await again(lambda: store.expired(100))
            await again(lambda late=late: store.write([transitions.expire(job, Random(0)) for job in late]))  # type: ignore[misc]
            rest += [job.queue for job in await again(lambda: claim(store, limit=100, lease=300))]
    assert sorted(rest) == sorted(gone)


async def test_a_worker_runs_on_a_cluster(six: cluster.Server, url: str) -> None:
    app = dibs.App(url)

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    worker = dibs.Worker(app, concurrency=10)
    running = asyncio.ensure_future(worker.run())
    jobs = [await double.enqueue(n) for n in range(20)]
    async with asyncio.timeout(20):
        while (await app.counts()).completed < 20:  # noqa: ASYNC110 - the worker sees to that
            await asyncio.sleep(0.05)
    worker.stop()
    await running
    found = [await app.get(job.id) for job in jobs]
    assert [job and job.result for job in found] == [2 * n for n in range(20)]
    assert (await app.verify()).ok
    await app.close()
