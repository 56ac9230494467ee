"""Lanes come and go; no job is ever in one that claims do not see. And the clock that they share."""

import asyncio

from dibs.clock import Clock, FakeClock
from dibs.domain import transitions
from dibs.testing.conformance.builders import claim, claim_one, completed, enqueue, ids, new_job, new_jobs, settle
from tests.stores.servers.kinds import Kind, Own, ServerStore

HOUR_US = 3600 * 1_000_000
MADE = {"postgresql": 50, "mysql": 20}  # at least, in two seconds; the more, the more has met


async def test_a_lane_that_this_process_remembers_and_another_removed(
    kind: Kind, store: ServerStore, url: str, clock: FakeClock, own: Own
) -> None:
    await enqueue(store, new_job("a", keep=0))
    await settle(store, completed(await claim_one(store)))
    other = kind.store(url, clock)
    await other.prune(100)
    assert await own.value("SELECT count(*) FROM dibs_lane") == 0

    await enqueue(store, new_job("b"))
    assert ids(await claim(other)) == ["b"]
    await other.close()


async def test_lanes_are_removed_while_jobs_come_in(kind: Kind, url: str) -> None:
    store, pruner = kind.store(url, Clock()), kind.store(url, Clock())
    over = asyncio.get_running_loop().time() + 2
    made: list[str] = []

    async def produce(task: str) -> None:
        while asyncio.get_running_loop().time() < over:
            made.extend(ids(await enqueue(store, new_job(task=task, keep=0))))
            await settle(store, *map(completed, await claim(store, tasks=(task,))))

    async def prune() -> None:
        while asyncio.get_running_loop().time() < over:
            await pruner.prune(100)

    await asyncio.gather(*(produce(f"t{n}") for n in range(4)), prune(), prune())

    assert len(made) > MADE[kind.name]
    assert (await pruner.counts()).unfinished == 0
    await store.close()
    await pruner.close()


async def test_the_clock_stands_still_while_the_server_s_is_behind(kind: Kind, real: ServerStore, own: Own) -> None:
    ahead = await real.now() + HOUR_US
    await own.begin()
    await own.run(kind.set_ahead.format(ahead))
    await own.commit()
    drafts = new_jobs(4)
    for draft in drafts:
        await enqueue(real, draft)

    assert await real.now() == ahead
    jobs = [await claim_one(real) for _ in drafts]
    assert ids(jobs) == ids(drafts)
    assert {job.claimed_us for job in jobs} == {ahead}
    await settle(real, completed(jobs[0]), transitions.release(jobs[1].ref))
    assert ids(await claim(real)) == [jobs[1].id]
