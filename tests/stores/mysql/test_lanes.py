"""Lanes come and go; no job is ever in one that claims do not see. And the clock that they share."""

import asyncio

from dibs.clock import Clock, FakeClock
from dibs.domain import transitions
from dibs.stores.mysql import MysqlStore
from dibs.testing.conformance.builders import claim, claim_one, completed, enqueue, ids, new_job, new_jobs, settle
from tests.stores.mysql.conftest import Own

HOUR_US = 3600 * 1_000_000


async def test_a_lane_that_this_process_remembers_and_another_removed(
    store: MysqlStore, url: str, clock: FakeClock, own: Own
) -> None:
    await enqueue(store, new_job("a", keep=0))
    await settle(store, completed(await claim_one(store)))
    other = MysqlStore(url, clock)
    await other.prune(100)
    assert await own.value("SELECT count(*) FROM dibs_lane") == 0

    await enqueue(store, new_job("b"))
    assert ids(await claim(other)) == ["b"]
    await other.close()


async def test_lanes_are_removed_while_jobs_come_in(url: str) -> None:
    store, pruner = MysqlStore(url, Clock()), MysqlStore(url, Clock())
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

    assert len(made) > 20
    assert (await pruner.counts()).unfinished == 0
    await store.close()
    await pruner.close()


async def test_the_clock_stands_still_while_the_server_s_is_behind(url: str, own: Own) -> None:
    store = MysqlStore(url, Clock())
    ahead = await store.now() + HOUR_US
    await own.run(f"UPDATE dibs_clock SET at = {ahead} WHERE slot = 7")
    await own.connection.commit()
    drafts = new_jobs(4)
    for draft in drafts:
        await enqueue(store, draft)

    assert await store.now() == ahead
    jobs = [await claim_one(store) for _ in drafts]
    assert ids(jobs) == ids(drafts)
    assert {job.claimed_us for job in jobs} == {ahead}
    await settle(store, completed(jobs[0]), transitions.release(jobs[1].ref))
    assert ids(await claim(store)) == [jobs[1].id]
    await store.close()


async def test_a_slot_of_the_clock_that_is_held_holds_up_no_one_for_long(url: str, own: Own) -> None:
    """Two connections may share a slot; who holds it is about to commit. One that is not, is waited for, and told."""
    store = MysqlStore(url, Clock())
    await store.open()
    await own.run("SELECT at FROM dibs_clock FOR UPDATE")
    running = asyncio.ensure_future(enqueue(store, new_job("a")))
    await asyncio.sleep(0.1)
    assert not running.done()
    await own.connection.rollback()

    assert ids(await running) == ["a"]
    await store.close()
