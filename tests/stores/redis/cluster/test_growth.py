"""What is gone is gone: on no master is a key left of jobs whose time is over."""

from urllib.parse import parse_qs, urlsplit

import redis

from dibs.clock import FakeClock
from dibs.stores.redis import ClusterStore
from dibs.stores.redis.cluster.shards import SHARDS
from dibs.testing.conformance.builders import claim, completed, enqueue, settle
from tests.stores.redis.drafts import varied


def left(url: str) -> list[str]:
    """List the keys of a store on all masters."""
    parts = urlsplit(url)
    prefix = parse_qs(parts.query)["prefix"][0]
    with redis.RedisCluster.from_url(parts._replace(scheme="redis", query="").geturl()) as cluster:
        return [key.decode() for key in cluster.scan_iter(match=f"{prefix}:*", count=1000)]


async def test_what_is_gone_leaves_nothing_behind(store: ClusterStore, clock: FakeClock, url: str) -> None:
    """Neither of jobs, nor of their names, which may be in another shard, nor of what was noted."""
    for n in range(3):
        await enqueue(store, *varied(n))
        await settle(store, *map(completed, await claim(store, limit=100)))
    await store.put("worker/a", b"1", keep_us=1)
    await store.put("paused/q", b"1", keep_us=1)
    assert len(left(url)) > SHARDS
    clock.advance(5)
    assert await store.prune(1000) == 60
    clock.advance(100_000)
    await store.prune(1000)

    assert {key.rpartition(":")[2] for key in left(url)} == {"meta"}
