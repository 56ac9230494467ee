"""``examine``: each finding made real, on a server whose settings may be spoilt."""

from collections.abc import Iterator

import pytest

from dibs.clock import Clock, FakeClock
from dibs.domain.finding import Finding, Level
from dibs.domain.retry import SECOND
from dibs.stores.redis import RedisStore, examining
from dibs.testing.conformance.builders import claim, completed, enqueue, new_jobs, settle
from tests.servers import redis
from tests.servers.databases import empty_valkey
from tests.servers.keeping import free_port


@pytest.fixture(scope="module")
def server() -> Iterator[redis.Server]:
    """One that keeps what it promises, but for how a test spoils it."""
    with redis.private(redis.DURABLE) as server:
        yield server


@pytest.fixture(autouse=True)
def mended(server: redis.Server) -> Iterator[None]:
    yield
    for name, value in {"appendonly": "yes", "appendfsync": "always", "save": "", "maxmemory": "0"}.items():
        server.ask("CONFIG", "SET", name, value)
    server.ask("CONFIG", "SET", "maxmemory-policy", "noeviction", "maxclients", "4000", "min-replicas-to-write", "0")
    server.ask("FLUSHALL")


async def examine(url: str, clock: Clock | None = None) -> dict[str, Finding]:
    return {finding.code: finding for finding in await RedisStore(url, clock or Clock()).examine()}


def levels(found: dict[str, Finding]) -> dict[str, Level]:
    return {code: finding.level for code, finding in found.items() if finding.level is not Level.OK}


async def test_all_is_well(server: redis.Server) -> None:
    found = await examine(server.url)
    assert levels(found) == {}
    wanted = {"reachable", "version", "clock", "eviction", "persistence", "replicas", "connections", "orphans"}
    assert set(found) == wanted
    assert "loses nothing" in found["persistence"].message
    assert found["version"].message.startswith("Redis 7")


async def test_valkey_is_known_by_its_name() -> None:
    found = await examine(empty_valkey())
    assert found["version"].message.startswith("Valkey ")
    assert found["version"].level is Level.OK


async def test_a_server_that_is_not_there() -> None:
    assert levels(await examine("redis://127.0.0.1:1/0")) == {"reachable": Level.FAILURE}


def test_versions() -> None:
    assert examining.version({"redis_version": "6.2.14"}).level is Level.FAILURE
    assert examining.version({"redis_version": "7.0.0"}).level is Level.OK
    assert examining.version({"redis_version": "7.2.4", "valkey_version": "9.1.0"}).message == "Valkey 9.1.0"


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
async def test_a_server_that_throws_jobs_away(server: redis.Server, policy: str) -> None:
    server.ask("CONFIG", "SET", "maxmemory-policy", policy)
    found = await examine(server.url)
    assert levels(found) == {"eviction": Level.FAILURE}
    assert policy in found["eviction"].message
    assert "noeviction" in found["eviction"].fix


async def test_a_server_that_is_nearly_full(server: redis.Server) -> None:
    server.ask("CONFIG", "SET", "maxmemory", "1")
    assert levels(await examine(server.url)) == {"memory": Level.WARNING}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"appendonly": "no", "save": ""}, "lost all jobs"),
        ({"appendonly": "no", "save": "3600 1"}, "only snapshots"),
        ({"appendfsync": "no"}, "appendfsync is no"),
    ],
)
async def test_a_server_that_forgets(server: redis.Server, settings: dict[str, str], said: str) -> None:
    for name, value in settings.items():
        server.ask("CONFIG", "SET", name, value)
    found = await examine(server.url)
    assert levels(found) == {"persistence": Level.WARNING}
    assert said in found["persistence"].message


async def test_what_a_crash_may_lose_is_said(server: redis.Server) -> None:
    server.ask("CONFIG", "SET", "appendfsync", "everysec")
    found = await examine(server.url)
    assert found["persistence"].level is Level.OK
    assert "last second" in found["persistence"].message


async def test_a_snapshot_that_failed() -> None:
    with redis.private({**redis.DURABLE, "dbfilename": "folder"}) as server:
        (server.folder / "folder" / "in-the-way").mkdir(parents=True)
        server.ask("BGSAVE")
        while server.ask("INFO", "persistence")["rdb_bgsave_in_progress"]:
            pass
        assert levels(await examine(server.url))["disk"] is Level.FAILURE


async def test_a_replica_and_its_master(server: redis.Server) -> None:
    with redis.private() as replica:
        replica.ask("REPLICAOF", "127.0.0.1", server.port)
        while (await examine(server.url))["replicas"].level is Level.OK:
            pass
        found = await examine(server.url)
        assert levels(found) == {"replicas": Level.WARNING}
        assert "min-replicas-to-write 1" in found["replicas"].fix
        assert levels(await examine(replica.url))["writable"] is Level.FAILURE
        server.ask("CONFIG", "SET", "min-replicas-to-write", "1")
        assert levels(await examine(server.url)) == {}


async def test_few_connections_are_left(server: redis.Server) -> None:
    server.ask("CONFIG", "SET", "maxclients", "5")
    found = await examine(server.url)
    assert levels(found) == {"connections": Level.WARNING}


async def test_a_server_of_a_cluster() -> None:
    settings = {"cluster-enabled": "yes", "cluster-port": str(free_port()), **redis.DURABLE}
    with redis.private({**settings, "databases": "1"}) as server:
        assert levels(await examine(server.url)) == {"cluster": Level.FAILURE}


async def test_a_clock_that_is_off(server: redis.Server) -> None:
    assert levels(await examine(server.url, FakeClock())) == {"clock": Level.WARNING}


async def test_settings_that_may_not_be_read(server: redis.Server) -> None:
    server.ask("ACL", "SETUSER", "small", "on", ">pw", "~*", "&*", "+@all", "-config")
    found = await examine(server.url.replace("redis://", "redis://small:pw@"))
    assert levels(found) == {"settings": Level.WARNING}


async def test_what_no_one_looks_after(server: redis.Server) -> None:
    clock = FakeClock()
    clock._now = Clock().now() - 7200 * SECOND
    store = RedisStore(server.url, clock)
    await enqueue(store, *new_jobs(3, keep=1))
    first, *_ = await claim(store, limit=2, lease=1)
    await settle(store, completed(first))
    await store.close()

    found = await examine(server.url)
    assert levels(found) == {"leases": Level.WARNING, "retention": Level.WARNING}
    assert found["leases"].message.startswith("1 ")
