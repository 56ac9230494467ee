"""A master that stands still past the node timeout, while its replica takes over, and then comes back.

What the old one has acknowledged and the new one never got is lost: that is Redis's to say. What is not allowed: that
an old holder settles under a fence that was given out again, or that what was kept does not end.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

import dibs
from dibs.clock import Clock
from dibs.domain.errors import DibsError
from dibs.domain.job import Outcome
from dibs.stores.redis import ClusterStore
from dibs.stores.redis.cluster.shards import TAGS, home, slot_of
from dibs.testing.conformance.builders import claim_one, completed, enqueue, new_job, read, settle
from tests.servers import cluster, redis, valkey
from tests.stores.redis.cluster.patience import again


@pytest.fixture(params=["redis", pytest.param("valkey", marks=pytest.mark.long)])
def six(request: pytest.FixtureRequest) -> Iterator[cluster.Server]:
    with cluster.private(binary=redis.program() if request.param == "redis" else valkey.program()) as server:
        yield server


@pytest.fixture
async def store(six: cluster.Server) -> AsyncIterator[ClusterStore]:
    store = ClusterStore(f"{six.url}?timeout=1", Clock())
    yield store
    await store.close()


def taken_over(six: cluster.Server, master: cluster.Node, replica: cluster.Node) -> None:
    """Let a master stand still until its replica is in its place."""
    master.pause()
    replica.resume()
    six.await_master(replica)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - it is what others have done
            await asyncio.sleep(0.05)


async def test_a_fence_that_is_given_out_again_does_not_let_the_old_holder_in(
    six: cluster.Server, store: ClusterStore
) -> None:
    await enqueue(store, new_job("job", queue="q"))
    master = six.master_of(slot_of(TAGS[home("q")]))
    replica = six.replica_of(master)
    assert master.ask("WAIT", 1, 5000) == 1
    replica.pause()
    master.ask("CLIENT", "KILL", "TYPE", "replica")  # what comes now will not have reached it
    old = await claim_one(store, "old", id="job")
    await asyncio.to_thread(taken_over, six, master, replica)
    new = await again(lambda: claim_one(store, "new", id="job"))
    assert new.fence == old.fence == 1

    assert await settle(store, completed(old)) == [Outcome.LOST]
    master.resume()
    assert await settle(store, completed(old)) == [Outcome.LOST]
    await asyncio.to_thread(six.await_whole)
    assert await settle(store, completed(old)) == [Outcome.LOST]
    assert await settle(store, completed(new)) == [Outcome.APPLIED]
    assert (await read(store, "job")).worker_id == "new"


async def test_all_that_was_kept_ends_and_what_was_lost_is_of_the_last_second(six: cluster.Server) -> None:
    """A producer and workers go on all the time; nobody settles what another holds, and `verify` finds nothing."""
    app = dibs.App(f"{six.url}?timeout=1")
    ran: dict[str, list[int]] = {}

    @app.task(lease=2)
    async def note(n: int) -> None:
        claim = dibs.current()
        ran.setdefault(claim.job.id, []).append(claim.fence)
        await asyncio.sleep(0.01)

    sent: dict[str, float] = {}
    stop = asyncio.Event()

    async def produce() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            job = note.options(id=f"job-{n}", queue=f"q{n % 8}", retry=dibs.Backoff(0, 0)).job(n)
            try:
                await app.enqueue_many([job])
            except DibsError:
                await asyncio.sleep(0.05)
                continue
            sent[f"job-{n}"] = time.monotonic()
            await asyncio.sleep(0.01)

    worker = dibs.Worker(app, concurrency=10, lease=2)
    running, producing = asyncio.ensure_future(worker.run()), asyncio.ensure_future(produce())
    await until(lambda: len(sent) > 100)
    master = six.master_of(slot_of(TAGS[home("q1")]))
    replica = six.replica_of(master)
    paused = time.monotonic()
    await asyncio.to_thread(taken_over, six, master, replica)
    await until(lambda: len(sent) > 150)
    master.resume()
    await asyncio.to_thread(six.await_whole)
    await until(lambda: len(sent) > 200)
    stop.set()
    await producing

    async def unfinished() -> int:
        return (await app.counts()).unfinished

    async with asyncio.timeout(30):
        while await again(unfinished):  # noqa: ASYNC110 - workers see to that
            await asyncio.sleep(0.1)
    worker.stop()
    await running
    kept = {id for id in sent if await app.get(id) is not None}
    lost = sent.keys() - kept
    assert [id for id in lost if id not in ran and not paused - 1 < sent[id] < paused + 3] == []
    assert len([id for id in lost if id not in ran]) <= 20
    assert all(ran.get(id) for id in kept)
    assert (await app.verify()).ok
    await app.close()
