"""What idle processes ask of a cluster: what one has seen the others believe, and no look is made twice."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from dibs.clock import Clock
from dibs.domain.errors import StoreUnavailable
from dibs.stores.redis import ClusterStore
from dibs.stores.redis.cluster.shards import SHARDS, home
from dibs.stores.redis.cluster.site import ShardPart
from dibs.stores.redis.scripts import Script, script
from dibs.testing.conformance.builders import claim, enqueue, new_job, one

Open = Callable[..., ClusterStore]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each script was run."""
    number, run = Counter[str](), ShardPart.run

    async def counted(self: ShardPart, script: Script, *words: Any) -> Any:
        number[script.name] += 1
        return await run(self, script, *words)

    monkeypatch.setattr(ShardPart, "run", counted)
    return number


async def test_of_many_who_reap_one_looks_at_all_shards(open_store: Open, asked: Counter[str]) -> None:
    processes = [open_store(clock=Clock()) for _ in range(5)]
    for process in processes:
        assert await process.expired(10) == []

    assert asked["expired"] == SHARDS
    assert asked["calm"] == 1 + 1 + 4  # asked for, noted, and asked for by each of the others


async def test_a_lease_that_runs_out_is_seen_by_all_the_same(open_store: Open, asked: Counter[str]) -> None:
    """No longer is it believed than until the first one does."""
    holder, reaper = open_store(clock=Clock()), open_store(clock=Clock())
    await enqueue(holder, new_job("a"))
    [job] = await claim(holder, lease=1)
    assert await holder.expired(10) == []

    async with asyncio.timeout(20):
        while not (late := await reaper.expired(10)):  # noqa: ASYNC110 - time has to pass
            await asyncio.sleep(0.02)
    assert [(one.id, one.fence) for one in late] == [(job.id, job.fence)]
    assert asked["expired"] <= 10 * SHARDS


async def test_a_clock_that_was_set_back_makes_no_one_believe_for_longer(open_store: Open, asked: Counter[str]) -> None:
    """What was to go within a second seems to have an hour left."""
    store = open_store(clock=Clock())
    await store._sites.here().parts[0].run(script("calm"), 3_600_000)
    assert await store.expired(10) == []
    assert asked["expired"] == SHARDS
    assert await open_store(clock=Clock()).expired(10) == []
    assert asked["expired"] == SHARDS  # noted anew, it is believed


async def test_where_it_is_not_known_each_looks_for_itself(
    open_store: Open, monkeypatch: pytest.MonkeyPatch, asked: Counter[str]
) -> None:
    run = ShardPart.run

    async def away(self: ShardPart, script: Script, *words: Any) -> Any:
        if script.name == "calm":
            raise StoreUnavailable("the first shard does not answer")
        return await run(self, script, *words)

    monkeypatch.setattr(ShardPart, "run", away)
    for process in (open_store(clock=Clock()), open_store(clock=Clock())):
        assert await process.expired(10) == []
    assert asked["expired"] == 2 * SHARDS


async def test_who_has_claimed_in_vain_waits_without_another_look(open_store: Open, asked: Counter[str]) -> None:
    store = open_store(clock=Clock())
    site = store._sites.here()
    await store.open()
    while not site.listening():  # noqa: ASYNC110 - no one tells
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)

    assert await claim(store) == []
    await store.wait(one(), 0.3)
    assert asked["peek"] == SHARDS


async def test_news_ends_the_wait_of_one_who_has_claimed_in_vain(open_store: Open) -> None:
    store, other = open_store(clock=Clock()), open_store(clock=Clock())
    assert await claim(store) == []
    waiting = asyncio.create_task(store.wait(one(), 60))
    await asyncio.sleep(0.5)
    await enqueue(other, new_job(queue="mail"))
    assert await asyncio.wait_for(waiting, 20) in ({"mail"}, None)  # none: it was not heard of, but seen
    assert len(await claim(store)) == 1


async def test_who_has_heard_of_a_queue_looks_nowhere_else(open_store: Open, asked: Counter[str]) -> None:
    store = open_store(clock=Clock())
    assert await claim(store) == []
    asked.clear()
    news = replace(one(), heard=frozenset({"mail"}))
    assert await store.claim([news]) == [[]]
    assert asked == {"claim": 1}

    await enqueue(store, new_job(queue="mail"), new_job(queue=next(apart("mail"))))
    [got] = await store.claim([news])
    assert [job.queue for job in got] == ["mail"]
    assert await store.claim([news]) == [[]]
    assert len(await claim(store)) == 1


def apart(queue: str) -> Iterator[str]:
    """Name queues that are at home in other shards."""
    return (name for name in map(str, range(100)) if home(name) != home(queue))
