"""``examine`` of a cluster: whether it is whole, and what is wrong with any of its masters, by name."""

import asyncio
from collections.abc import Iterator

import pytest

from dibs.clock import Clock, FakeClock
from dibs.domain.finding import Finding, Level
from dibs.stores.redis import ClusterStore, RedisStore
from dibs.testing.conformance.builders import claim, enqueue, new_job
from tests.servers import cluster
from tests.servers.databases import empty_redis


@pytest.fixture(scope="module")
def six() -> Iterator[cluster.Server]:
    with cluster.private() as server:
        for node in server.nodes:
            node.ask("CONFIG", "SET", "appendonly", "yes", "appendfsync", "always", "min-replicas-to-write", "1")
        yield server


async def examine(url: str) -> dict[str, Finding]:
    return {finding.code: finding for finding in await ClusterStore(url, Clock()).examine()}


def bad(found: dict[str, Finding]) -> dict[str, Level]:
    return {code: finding.level for code, finding in found.items() if finding.level is not Level.OK}


async def test_all_is_well(six: cluster.Server) -> None:
    found = await examine(six.url)
    assert bad(found) == {}
    assert found["cluster"].message == "3 masters, each with a replica, serve all slots"
    assert found["reachable"].message == "3 masters"


async def test_what_is_wrong_with_one_master_is_told_with_its_name(six: cluster.Server) -> None:
    node = six.masters[1]
    node.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru", "min-replicas-to-write", "0")
    found = await examine(six.url)
    node.ask("CONFIG", "SET", "maxmemory-policy", "noeviction", "min-replicas-to-write", "1")

    assert bad(found) == {"eviction": Level.FAILURE, "replicas": Level.WARNING}
    assert found["eviction"].message.startswith(f"127.0.0.1:{node.port}: maxmemory-policy is allkeys-lru")


async def test_claims_that_no_one_looks_after_are_counted_on_all_masters(six: cluster.Server) -> None:
    clock = FakeClock()
    clock.advance(-3600 * 24 * 365)  # so that they ran out long ago, by the servers' clock
    store = ClusterStore(f"{six.url}?prefix=orphans", clock)
    await enqueue(store, *(new_job(queue=f"q{n}") for n in range(30)))
    assert len(await claim(store, limit=100, lease=1)) == 30
    await store.close()

    found = await examine(f"{six.url}?prefix=orphans")
    told = [finding.message for finding in found.values() if finding.code == "leases"]
    assert told
    assert "ran out more than a minute ago" in told[0]


async def test_a_cluster_without_a_master_for_some_slots(six: cluster.Server) -> None:
    master = next(node for node in six.masters if node is not six.nodes[0])  # which is the one that is asked
    replica = six.replica_of(master)
    master.pause()
    replica.pause()
    try:
        async with asyncio.timeout(20):
            while (found := await examine(f"{six.url}?timeout=1"))["cluster"].level is Level.OK:  # noqa: ASYNC110 - it is asked
                await asyncio.sleep(0.2)
    finally:
        replica.resume()
        master.resume()
    assert found["cluster"].level is Level.FAILURE
    assert "have no master that answers" in found["cluster"].message
    await asyncio.to_thread(six.await_whole)


async def test_a_single_server_is_no_cluster_and_the_other_way_round(six: cluster.Server) -> None:
    single = empty_redis().rsplit("/", 1)[0]
    found = await examine(single.replace("redis://", "redis+cluster://"))
    assert bad(found) == {"reachable": Level.FAILURE}
    assert "Begin the URL with redis://" in found["reachable"].fix

    node = RedisStore(f"redis://127.0.0.1:{six.masters[0].port}", Clock())
    told = {finding.code: finding for finding in await node.examine()}
    assert told["cluster"].fix == "Begin the URL with redis+cluster://."
