"""The Redis, Valkey and Redis Cluster that the tests run on: do they do what tests will ask of them?"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import redis as driver
from redis.exceptions import AskError, MovedError, TryAgainError

from tests.servers import cluster, databases, keeping, redis, valkey


@pytest.fixture(params=["redis", "valkey"])
def binary(request: pytest.FixtureRequest) -> Path:
    return redis.program() if request.param == "redis" else valkey.program()


@pytest.fixture(scope="module", params=["redis", "valkey"])
def six(request: pytest.FixtureRequest) -> Iterator[cluster.Server]:
    """One cluster for the tests of this file; each leaves it whole."""
    with cluster.private(binary=redis.program() if request.param == "redis" else valkey.program()) as server:
        yield server


# A single server


@pytest.mark.parametrize("empty", [databases.empty_redis, databases.empty_valkey])
def test_a_test_gets_an_empty_database_where_no_one_is_left(empty) -> None:
    url = empty()
    straggler = driver.Redis.from_url(url)
    straggler.set("left", "behind")

    assert empty() == url

    with driver.Redis.from_url(url) as client:
        assert client.dbsize() == 0
        assert sum(other["db"] == urlsplit(url).path[1:] for other in client.client_list()) == 1
    straggler.close()


def test_two_processes_on_one_server_have_a_database_each() -> None:
    ask = "from tests.servers import databases; print(databases.empty_redis())"
    env = os.environ | {"DIBS_TEST_REDIS": redis.shared()}
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True, env=env)
    ours, theirs = urlsplit(databases.empty_redis()), urlsplit(done.stdout.strip())

    assert ours.netloc == theirs.netloc
    assert ours.path != theirs.path


def test_servers_are_what_they_say_they_are() -> None:
    with driver.Redis.from_url(redis.shared()) as client:
        assert "valkey_version" not in client.info("server")
        assert int(client.info("server")["redis_version"].split(".")[0]) >= 7
    with driver.Redis.from_url(valkey.shared()) as client:
        assert int(client.info("server")["valkey_version"].split(".")[0]) >= 8


def test_a_durable_server_that_is_killed_keeps_what_it_acknowledged(binary: Path) -> None:
    with redis.private(redis.DURABLE, binary=binary) as server:
        server.ask("SET", "a", "1")
        server.stop("immediate")
        server.start()
        assert server.ask("GET", "a") == "1"


def test_a_server_without_persistence_that_is_killed_keeps_nothing(binary: Path) -> None:
    with redis.private(binary=binary) as server:
        server.ask("SET", "a", "1")
        server.stop("immediate")
        server.start()
        assert server.ask("GET", "a") is None


def test_a_paused_server_accepts_and_does_not_answer(binary: Path) -> None:
    with redis.private(binary=binary) as server:
        server.pause()
        with pytest.raises(driver.TimeoutError):
            server.ask("PING", patience=0.2)
        server.resume()
        assert server.ask("PING")


def test_a_server_that_cannot_start_is_said_to_be_missing_with_its_log(binary: Path) -> None:
    with pytest.raises(keeping.Missing, match="maxmemory-policy"):
        redis.private({"maxmemory-policy": "nonsense"}, binary=binary).__enter__()


def test_without_a_server_a_run_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis, "on_the_machine", lambda name: None)
    monkeypatch.setattr(redis, "_from_debian", lambda: None)
    monkeypatch.setattr(valkey, "on_the_machine", lambda name: None)
    monkeypatch.setattr(valkey, "from_wheel", lambda name, pins: Path("/nowhere"))
    with pytest.raises(keeping.Missing, match="DIBS_TEST_REDIS"):
        redis.program()
    with pytest.raises(keeping.Missing, match="DIBS_TEST_VALKEY"):
        valkey.program()


# A cluster


def test_the_cluster_of_the_run_serves_every_slot_and_gives_a_prefix_with_nothing_under_it() -> None:
    url = databases.empty_cluster()
    [prefix] = parse_qs(urlsplit(url).query)["prefix"]
    client = driver.RedisCluster.from_url(urlsplit(url)._replace(scheme="redis", query="").geturl())
    keys = [f"{prefix}:{{{number}}}:jobs" for number in range(50)]
    for key in keys:
        client.set(key, "1")
    assert len({client.get_node_from_key(key).port for key in keys}) == cluster.MASTERS
    client.set("another's", "1")

    assert databases.empty_cluster() == url

    assert [client.get(key) for key in keys] == [None] * len(keys)
    assert client.get("another's") == b"1"
    client.delete("another's")
    client.disconnect_connection_pools()


def test_a_replica_takes_over_on_request_and_both_know_it(six: cluster.Server) -> None:
    slot = six.slot_of("{here}:key")
    master = six.master_of(slot)
    master.ask("SET", "{here}:key", "1")

    successor = six.fail_over(master)

    assert six.master_of(slot) is successor
    assert (successor.is_master, master.is_master) == (True, False)
    assert successor.ask("GET", "{here}:key") == "1"
    with pytest.raises(MovedError):
        master.ask("SET", "{here}:key", "2")
    six.await_whole()


def test_a_master_that_is_stopped_is_taken_over_and_finds_that_out(six: cluster.Server) -> None:
    master = six.masters[0]
    replica = six.replica_of(master)
    served = master.slots
    master.pause()
    try:
        six.await_master(replica)
        assert master not in six.alive
        assert replica.slots == served
    finally:
        master.resume()
    six.await_whole()
    assert not master.is_master


def test_a_master_that_is_killed_is_taken_over_and_comes_back_as_a_replica(six: cluster.Server) -> None:
    master = six.masters[0]
    replica = six.replica_of(master)
    key = next(key for key in map(str, range(1000)) if six.master_of(six.slot_of(key)) is master)
    master.ask("SET", key, "kept")
    assert master.ask("WAIT", 1, 2000) == 1
    master.stop("immediate")
    six.await_master(replica)
    assert replica.ask("GET", key) == "kept"

    master.start()
    six.await_whole()
    assert not master.is_master


def test_a_slot_moves_with_its_keys_and_in_between_asks_to_look_elsewhere(six: cluster.Server) -> None:
    slot = six.slot_of("{moving}")
    source = six.master_of(slot)
    target = next(node for node in six.masters if node is not source)
    for number in range(10):
        source.ask("SET", f"{{moving}}:{number}", number)

    six.begin_move(slot, target)
    assert six.move_keys(slot, target, 4) == 4
    left = set(source.ask("CLUSTER", "GETKEYSINSLOT", slot, 100))
    gone = {f"{{moving}}:{number}" for number in range(10)} - left
    assert (len(left), len(gone)) == (6, 4)
    with pytest.raises(AskError):
        source.ask("GET", next(iter(gone)))
    with pytest.raises(TryAgainError):
        source.ask("MGET", next(iter(gone)), next(iter(left)))
    while six.move_keys(slot, target, 4):
        pass
    six.end_move(slot, target)

    assert six.master_of(slot) is target
    assert [target.ask("GET", f"{{moving}}:{number}") for number in range(10)] == [str(n) for n in range(10)]
    six.move(slot, source)
    assert six.master_of(slot) is source
    assert source.ask("GET", "{moving}:7") == "7"


async def test_the_driver_that_dibs_uses_follows_a_failover(six: cluster.Server) -> None:
    from redis.asyncio import RedisCluster

    client = RedisCluster(host="127.0.0.1", port=six.nodes[0].port)
    await client.set("{there}", "1")
    master = six.master_of(six.slot_of("{there}"))
    await asyncio.to_thread(six.fail_over, master)
    assert await client.get("{there}") == b"1"
    await client.set("{there}", "2")
    await client.aclose()
    await asyncio.to_thread(six.await_whole)
