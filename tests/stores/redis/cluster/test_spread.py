"""A queue in several parts: over all masters, each part in order; and pauses that all parts know of."""

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import groupby

import pytest

from dibs.clock import Clock
from dibs.domain.errors import InvalidRequest
from dibs.domain.job import Outcome
from dibs.stores.redis import ClusterStore, registry
from dibs.stores.redis.cluster import pauses
from dibs.stores.redis.cluster.owners import by_id
from dibs.stores.redis.cluster.shards import SHARDS, Spread, home
from dibs.testing.conformance.builders import claim, completed, enqueue, ids, new_job, new_jobs, settle

Open = Callable[..., ClusterStore]


async def parts_of(store: ClusterStore, names: list[str]) -> dict[str, int]:
    found = await store._sites.here().owners.read([by_id(id) for id in names])
    return {id: owner.shard for id, owner in zip(names, found, strict=True) if owner is not None}


async def test_jobs_of_one_queue_are_in_one_shard_unless_it_is_spread(store: ClusterStore, open_store: Open) -> None:
    drafts = new_jobs(50, queue="hot")
    await enqueue(store, *drafts)
    assert set((await parts_of(store, ids(drafts))).values()) == {home("hot")}

    wide = open_store("&partitions=hot:12")
    more = new_jobs(600, queue="hot")
    await enqueue(wide, *more)
    counted = Counter((await parts_of(store, ids(more))).values())
    assert set(counted) == set(range(SHARDS))
    assert max(counted.values()) < 2 * min(counted.values())
    await enqueue(wide, *new_jobs(20, queue="cold"))
    assert (await wide.counts("hot")).pending == 650
    taken = [job.id for _ in range(30) for job in await claim(wide, limit=100, queues=("hot",))]
    assert sorted(taken) == sorted(ids([*drafts, *more]))


async def test_each_part_is_in_order(open_store: Open) -> None:
    store = open_store("&partitions=4")
    drafts = [new_job(priority=n % 3) for n in range(120)]
    for draft in drafts:
        await enqueue(store, draft)
    place = await parts_of(store, ids(drafts))
    assert len(set(place.values())) == 4
    taken = [job for _ in range(40) for job in await claim(store, limit=7)]

    assert len(taken) == 120
    order = {draft.id: (-draft.priority, at) for at, draft in enumerate(drafts)}
    for shard in set(place.values()):
        theirs = [order[job.id] for job in taken if place[job.id] == shard]
        assert theirs == sorted(theirs)


async def test_each_queue_is_in_order_whatever_else_is_claimed(store: ClusterStore) -> None:
    drafts = [new_job(queue=f"q{n % 5}", priority=n % 2) for n in range(100)]
    await enqueue(store, *drafts)
    taken = [job for _ in range(40) for job in await claim(store, limit=6)]

    order = {draft.id: (-draft.priority, at) for at, draft in enumerate(drafts)}
    assert len(taken) == 100
    for _, theirs in groupby(sorted(taken, key=lambda job: job.queue), lambda job: job.queue):
        places = [order[job.id] for job in theirs]
        assert places == sorted(places)


async def test_parts_are_visited_fairly(open_store: Open) -> None:
    store = open_store("&partitions=12")
    drafts = new_jobs(960)
    await enqueue(store, *drafts)
    place = await parts_of(store, ids(drafts))
    taken = [job.id for _ in range(48) for job in await claim(store, limit=10)]
    counted = Counter(place[id] for id in taken)

    assert len(taken) == 480
    assert set(counted.values()) == {40}


async def test_who_names_no_number_learns_it_and_it_can_only_become_a_multiple(open_store: Open) -> None:
    await open_store("&partitions=q:3").open()
    follower = open_store()
    await follower.open()
    assert (await follower._where(follower._sites.here())).of("q") == 3
    assert (await follower._where(follower._sites.here())).of("other") == 1
    with pytest.raises(InvalidRequest, match=r"partitions=q:4: its jobs are in 3 already"):
        await open_store("&partitions=q:4").open()
    await open_store("&partitions=q:1").open()  # an old URL is no harm
    grown = open_store("&partitions=q:6")
    await grown.open()
    assert (await grown._where(grown._sites.here())).of("q") == 6


async def test_a_claimer_finds_the_jobs_of_a_queue_that_is_spread_while_it_runs(open_store: Open) -> None:
    old = open_store("", Clock())
    await enqueue(old, *new_jobs(5))
    new = open_store("&partitions=12", Clock())
    await enqueue(new, *new_jobs(60))
    got: list[str] = []
    async with asyncio.timeout(20):
        while len(got) < 65:
            got += ids(await claim(old, limit=100))
            await asyncio.sleep(0.1)
    assert len(set(got)) == 65


@pytest.mark.parametrize("wrong", ["5", "q:7", "x", "q:", "0", "a:1,b:24"])
def test_numbers_that_cannot_be(wrong: str) -> None:
    with pytest.raises(InvalidRequest, match="must be one of 1, 2, 3, 4, 6, 12"):
        ClusterStore(f"redis+cluster://localhost?partitions={wrong}", Clock())


def test_parts_are_at_equal_distances() -> None:
    spread = Spread({"": 1, "hot": 3})
    first = home("hot")
    assert spread.shards("hot") == [first, (first + 4) % 12, (first + 8) % 12]
    assert spread.shards("other") == [home("other")]


async def test_a_pause_is_known_to_all_parts_and_an_older_one_does_not_overtake_it(open_store: Open) -> None:
    store = open_store("&partitions=12")
    await enqueue(store, *new_jobs(60, queue="q"))
    parts = store._sites.here().parts
    await store.put("paused/q", b"{}")
    stale = await parts[0].run(pauses._READ)
    assert await claim(store, limit=100) == []
    await store.put("paused/q", None)
    for part in parts:
        await part.run(pauses._COPY, stale[0], "", *stale[1:])  # it crossed the other on its way
    taken = await claim(store, limit=100)
    assert len(taken) == 60
    assert await settle(store, *map(completed, taken)) == [Outcome.APPLIED] * 60


async def test_a_pause_that_only_a_part_has_heard_of_is_made_known_by_maintenance(open_store: Open) -> None:
    """Whoever paused it died before the others were told; or a failover has lost it."""
    store = open_store("&partitions=12")
    await enqueue(store, *new_jobs(60, queue="q"))
    await registry.put(store._sites.here().parts[0], "paused/q", b"{}", None, None)
    assert await claim(store, limit=1) != []
    await store.prune(100)
    assert await claim(store, limit=100) == []
