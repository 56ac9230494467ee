"""What things cost: a claim the same whatever else is there, a job little memory, a script little time.

Nothing here is timed: the server counts the commands that a script runs, each of which looks up, or reads what it
returns; how many jobs lie beside that does not matter to either.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from dibs.clock import Clock, FakeClock
from dibs.domain import transitions
from dibs.domain.job import ClaimRequest, Order
from dibs.stores.memory import MemoryStore
from dibs.stores.redis import RedisStore
from dibs.testing.conformance.builders import claim, completed, enqueue, find, new_job, new_jobs, released, settle
from dibs.testing.conformance.read import audited
from dibs.testing.conformance.restore import lives, restored
from tests.servers import redis as server
from tests.stores.redis.drafts import varied

MANY = 5_000


@pytest.fixture
def url() -> Iterator[str]:
    """A server that runs no one else's commands, which are counted here."""
    with server.private() as private:
        yield private.url


async def fill(store: RedisStore, clock: FakeClock, what: str) -> None:
    """Put many jobs beside those that are claimed."""
    kinds: dict[str, dict[str, Any]] = {
        "pending": {},
        "scheduled": {"delay": 3600},
        "held back": {"delay": None},
        "finished": {},
        "of another task": {"task": "common"},
        "in another queue": {"queue": "other"},
    }
    for _ in range(MANY // 1000):
        await enqueue(store, *new_jobs(1000, **kinds[what]))
        if what == "finished":
            await settle(store, *map(completed, await claim(store, limit=1000)))
    clock.advance(1)


async def claims(store: RedisStore, own: redis.Redis, **asked: Any) -> tuple[dict[str, int], int]:
    """Claim one, then a hundred; say which commands that took, and how many jobs were got."""
    own.config_resetstat()
    got = [len(await claim(store, limit=limit, **asked)) for limit in (1, 100)]
    stats = own.info("commandstats")
    names = ("hget", "hgetall", "hmget", "hset", "zadd", "zrange", "zrangebylex", "zrem", "evalsha")
    return {name: stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in names}, sum(got)


@pytest.mark.parametrize("what", ["pending", "scheduled", "held back", "finished"])
async def test_claim_runs_the_same_commands_whatever_waits_beside(what: str, clock: FakeClock) -> None:
    with server.private() as private, redis.Redis(port=private.port) as own:
        store = RedisStore(private.url, clock)
        await enqueue(store, *new_jobs(202))
        await claim(store, limit=1)  # now the server knows the script
        alone = await claims(store, own)
        await claim(store, limit=1000)
        await fill(store, clock, what)
        await enqueue(store, *new_jobs(101, delay=-1 if what == "pending" else 0))

        beside = await claims(store, own)

        assert alone[1] == beside[1] == 101
        assert alone[0] == beside[0]
        await store.close()


@pytest.mark.parametrize("what", ["of another task", "in another queue"])
async def test_claim_of_a_rare_task_does_not_meet_the_others(what: str, clock: FakeClock) -> None:
    with server.private() as private, redis.Redis(port=private.port) as own:
        store = RedisStore(private.url, clock)
        await enqueue(store, *new_jobs(101))
        await claim(store, limit=1, queues=("none",))  # now the server knows the script
        wish = {"queues": ("default",), "tasks": ("task",)}
        alone = await claims(store, own, **wish)
        await fill(store, clock, what)
        await enqueue(store, *new_jobs(101))

        beside = await claims(store, own, **wish)

        assert alone[1] == beside[1] == 101
        assert alone[0] == beside[0]
        await store.close()


async def test_claim_of_everything_costs_a_look_for_each_lane(store: RedisStore, own: redis.Redis) -> None:
    for lanes in (10, 20):
        await enqueue(store, *(new_job(task=f"t{lanes}-{n}") for n in range(lanes)))
        await claim(store, limit=1)
        own.config_resetstat()
        assert len(await claim(store, limit=1)) == 1
        looks = own.info("commandstats")["cmdstat_zrangebylex"]["calls"]
        assert looks <= lanes + 2
        await claim(store, limit=1000)


async def test_claim_of_many_tasks_looks_at_the_lanes_there_are(store: RedisStore, own: redis.Redis) -> None:
    """A thousand queues and a thousand tasks are a million pairs, which no one may look up one by one."""
    await enqueue(store, *(new_job(f"{q}-{t}", queue=f"q{q}", task=f"t{t}") for q in range(3) for t in range(30)))
    queues, tasks = tuple(f"q{n}" for n in range(1, 1000)), tuple(f"t{n}" for n in range(20, 1000))
    own.config_resetstat()
    got = await claim(store, limit=100, queues=queues, tasks=tasks)

    assert {job.id for job in got} == {f"{q}-{t}" for q in (1, 2) for t in range(20, 30)}
    assert own.info("commandstats")["cmdstat_zrangebylex"]["calls"] < 1200
    assert {job.id for job in await claim(store, tasks=tasks)} == {f"0-{t}" for t in range(20, 30)}


async def test_a_long_log_is_read_and_removed_whole(store: RedisStore, clock: FakeClock, own: redis.Redis) -> None:
    await enqueue(store, new_job("often", keep=1), new_job("seldom", keep=1))
    for _ in range(1300):
        [job] = await claim(store, id="often")
        await settle(store, released(job))
    log = await store.log("often")
    assert [event.seq for event in log] == list(range(1, 2602))
    await settle(store, *map(completed, await claim(store)))
    clock.advance(2)

    assert await store.prune(10) == 2
    assert not own.exists("dibs:{0}:events", "dibs:{0}:body", "dibs:{0}:state")


@pytest.mark.parametrize("bytes_", [2, 1000])
async def test_a_pending_job_takes_less_than_a_kibibyte_beside_its_params(bytes_: int) -> None:
    number, clock = 5_000, Clock()
    with server.private() as private, redis.Redis(port=private.port) as own:
        store = RedisStore(private.url, clock)
        await enqueue(store, new_job())
        before = own.info("memory")["used_memory"]
        for _ in range(number // 1000):
            ids = [clock.new_id() for _ in range(1000)]
            params = b'"%b"' % (b"x" * (bytes_ - 2))
            await enqueue(store, *(new_job(id, queue="default", task="send_email", params=params) for id in ids))
        taken = (own.info("memory")["used_memory"] - before) / number

        assert taken < 1024 + bytes_
        await store.close()


async def test_what_is_gone_leaves_nothing_behind(store: RedisStore, clock: FakeClock, own: redis.Redis) -> None:
    for n in range(3):
        await enqueue(store, *varied(n))
        jobs = await claim(store, limit=15)
        await settle(store, *map(completed, jobs))
        await settle(store, *(completed(job) for job in await claim(store)))
    await store.put("worker/a", b"1", keep_us=1)
    await store.put("paused/q", b"1", keep_us=1)
    clock.advance(5)
    assert await store.prune(1000) == 60
    clock.advance(100_000)
    await store.prune(1000)

    assert own.keys() == [b"dibs:{0}:meta"]


async def test_what_was_restored_leaves_nothing_behind(store: RedisStore, clock: FakeClock, own: redis.Redis) -> None:
    await restored(store, await lives(clock))
    for _ in range(3):
        clock.advance(600)
        await settle(store, *map(completed, await claim(store, limit=100)))
    await settle(store, *(transitions.cancel(job.id) for job in await find(store)))
    clock.advance(40 * 86_400)
    assert await store.prune(1000) == 14
    clock.advance(2 * 86_400)
    await store.prune(1000)

    assert own.keys() == [b"dibs:{0}:meta"]


async def test_restore_takes_steps(store: RedisStore, clock: FakeClock, own: redis.Redis) -> None:
    origin = MemoryStore(clock)
    await enqueue(origin, *new_jobs(500))
    for job in await claim(origin, limit=100):
        await settle(origin, completed(job))
    await enqueue(origin, *new_jobs(3, params=b'"%b"' % (b"x" * 700_000)))
    own.config_resetstat()
    await restored(store, [(job, events) for job, events in await audited(origin, 1000) if job is not None])

    scripts = own.info("commandstats")
    assert sum(scripts.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("eval", "evalsha")) >= 2 * 5
    assert (await store.counts()).completed == 100


async def test_no_script_takes_more_than_a_step(store: RedisStore, own: redis.Redis) -> None:
    """A thousand jobs are claimed, completed and read in steps; and so are a few whose params are large."""
    await enqueue(store, *new_jobs(1000))
    own.config_resetstat()
    jobs = await claim(store, limit=1000)
    assert (
        own.info("commandstats")["cmdstat_evalsha"]["calls"]
        + own.info("commandstats").get("cmdstat_eval", {"calls": 0})["calls"]
        >= 4
    )
    assert len(jobs) == 1000
    own.config_resetstat()
    await settle(store, *map(completed, jobs))
    assert own.info("commandstats")["cmdstat_zrem"]["calls"] == 4

    for n in range(60):
        await enqueue(store, new_job(f"large-{n}", params=b'"%b"' % (b"x" * 200_000)))
    own.config_resetstat()
    got = await claim(store, limit=100)
    assert [job.id for job in got] == [f"large-{n}" for n in range(60)]
    assert own.info("commandstats")["cmdstat_zrem"]["calls"] > 1
    assert len(await store.get([job.id for job in got])) == 60


@pytest.mark.parametrize("order", [Order.CREATED_AT, Order.CREATED_AT_DESC, Order.RANDOM])
async def test_other_orders_go_through_all_pages(store: RedisStore, order: Order) -> None:
    drafts = [new_job(queue=f"q{n % 3}", task=f"t{n % 2}", priority=n % 5) for n in range(2500)]
    for at in range(0, 2500, 500):
        await enqueue(store, *drafts[at : at + 500])
    taken = [job.id for _ in range(3) for job in await claim(store, limit=1000, order=order)]

    assert sorted(taken) == sorted(draft.id for draft in drafts)
    if order is Order.CREATED_AT:
        assert taken == [draft.id for draft in drafts]


async def test_several_claimers_in_another_order_share_without_a_double(store: RedisStore) -> None:
    await enqueue(store, *new_jobs(300))
    requests = [[ClaimRequest(f"w{n}", f"token-{n}", 50, order=Order.CREATED_AT)] for n in range(6)]
    answers = await asyncio.gather(*(store.claim(request) for request in requests))

    ids = [job.id for [jobs] in answers for job in jobs]
    assert len(ids) == len(set(ids)) == 300
