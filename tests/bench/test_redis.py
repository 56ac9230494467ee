"""The cases on Redis: their bars, the floor under them, and what the server tells of memory and scripts."""

from pathlib import Path

import pytest
from redis import Redis as Client

from bench import bare_redis
from bench.cases.batch import rate_of
from bench.cases.end_to_end import TIMES, over_the_best
from bench.cases.enqueue import hold as hold_enqueue
from bench.cases.pickup import Turn
from bench.cases.pickup import hold as hold_pickup
from bench.cases.redis.scripts import slowest
from bench.contenders import ON_REDIS, Drained
from bench.redis import NOTED, serving
from bench.run import Broken, Run
from bench.view import View


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path, View())


def test_all_eight_peers_take_part() -> None:
    assert {peer.name for peer in ON_REDIS.peers} == {
        "arq", "celery", "dramatiq", "huey", "rq", "saq", "streaq", "taskiq",
    }  # fmt: skip
    assert {who.store for who in ON_REDIS.everyone} == {"redis"}


@pytest.mark.parametrize(("ours", "held"), [(19_000, True), (17_000, False)])
def test_end_to_end_is_held_against_the_best_peers_better_rate(run: Run, ours: float, held: bool) -> None:
    found = {peer.subject: [Drained(1_000.0, 900.0)] for peer in ON_REDIS.peers}
    found[ON_REDIS.peers[1].subject] = [Drained(3_000.0, 2_000.0)]
    over_the_best(run, "redis", ON_REDIS, found | {ON_REDIS.ours.subject: [Drained(99_999, ours)]}, at_least=TIMES)
    [bar] = run.bars
    assert ON_REDIS.peers[1].subject in bar.about
    assert bar.values == [ours / 3_000]
    assert bar.held is held


@pytest.mark.parametrize(("ours", "held"), [(31_000.0, True), (29_000.0, False)])
def test_batch_enqueue_is_held_against_a_peer_that_is_best_without_batches_too(
    run: Run, ours: float, held: bool
) -> None:
    found = {peer.subject: [5_000.0 if peer.batch else 10_000.0] for peer in ON_REDIS.peers}
    hold_enqueue(run, "redis-enqueue", ON_REDIS, found | {ON_REDIS.ours.subject: [ours]}, at_least=3.0)
    assert [bar.held for bar in run.bars] == [held]


@pytest.mark.parametrize(("ours", "held"), [(1.4, True), (1.6, False)])
def test_pickup_is_held_against_the_quickest_peer(run: Run, ours: float, held: bool) -> None:
    found = {peer.subject: [Turn([0.0], [1.0 + n])] for n, peer in enumerate(ON_REDIS.peers)}
    found[ON_REDIS.ours.subject] = [Turn([0.0], [ours])]
    hold_pickup(run, "redis-pickup", ON_REDIS, found, at_most=1.5)
    assert [bar.held for bar in run.bars] == [held]


async def test_the_bare_scripts_claim_and_settle_each_job_once(run: Run) -> None:
    async with serving(run) as server, server.database() as url:
        seconds, claimed = await bare_redis.drain(url, 250, b"{}", 100)
        assert rate_of(250, seconds, claimed) > 0
        assert claimed == [str(number).encode() for number in range(250)]  # the oldest first
        with Client.from_url(url) as client:
            assert client.zcard("pending") == client.zcard("leases") == 0
            assert {client.hget(f"job:{number}", "status") for number in range(250)} == {b"completed"}


def test_a_bare_loop_that_claims_twice_is_not_believed() -> None:
    with pytest.raises(Broken, match="claimed 2 of 2"):
        rate_of(2, 1.0, ["a", "a"])


async def test_every_turn_has_an_empty_database_and_several_lie_side_by_side(run: Run) -> None:
    async with serving(run) as server:
        async with server.database() as one, server.database() as other:
            assert one != other
            with Client.from_url(one) as client:
                client.set("a", 1)
            with Client.from_url(other) as client:
                assert client.dbsize() == 0
        with Client.from_url(one) as client:
            assert client.dbsize() == 0
    assert any(note.startswith("Redis 7") for note in run.notes)


async def test_the_server_times_scripts_and_tells_what_it_holds(run: Run) -> None:
    busy = "for n = 1, ARGV[1] do redis.call('PING') end return ARGV[2]"
    async with serving(run) as server, server.database() as url:
        before = server.memory()
        with Client.from_url(url) as client:
            client.eval(busy, 0, 100_000, "before the watch is started")
            async with server.timed() as took:
                script = client.script_load(busy)
                client.evalsha(script, 0, 100_000, b"\xff")
                client.evalsha(script, 0, 10_000, "x")
                client.set("large", "x" * 1_000_000)
        assert list(took) == [script]
        short, long = took[script]  # the newest first
        assert long > short > NOTED
        assert server.memory() - before >= 1_000_000


def test_a_script_that_was_held_up_once_is_not_the_slowest() -> None:
    took = {"claim": [2.0] * 19 + [40.0], "extend": [90.0]}
    assert slowest(took, 20) == pytest.approx(2.0)
    assert slowest(took | {"insert": [6.0] * 20}, 20) == pytest.approx(6.0)
    assert slowest({}, 20) == NOTED
