"""A large group: seen whole or not at all, though it goes in steps; and what is left of one half-way goes."""

from collections.abc import Sequence
from typing import Any

import pytest
import redis

from dibs.clock import FakeClock
from dibs.domain.job import Draft, EventName
from dibs.stores.common.naming import Overtaken
from dibs.stores.redis import RedisStore, staging
from dibs.stores.redis.wording import STEP
from dibs.testing.conformance.builders import claim, completed, enqueue, find, ids, new_job, new_jobs, settle

KEPT = ("body", "order", "index", "ids", "idem", "unique", "pending", "staged")


def large(**options: Any) -> list[Draft]:
    return [new_job(tags=("t",), batch_id="b", unique_key=f"u{n}", **options) for n in range(2 * STEP + 1)]


def kept(own: redis.Redis) -> dict[str, int]:
    """How many there are of each kind."""
    count: dict[Any, Any] = {b"hash": own.hlen, b"zset": own.zcard, b"none": lambda _: 0}
    keys = {kind: f"dibs:{{0}}:{kind}" for kind in KEPT}
    return {kind: n for kind, key in keys.items() if (n := count[own.type(key)](key))}


async def stage(store: RedisStore, drafts: Sequence[Draft]) -> staging._Staged:
    """Do all but the last step."""
    staged = staging._Staged(store._sites.here(), len(drafts))
    for some in staging._steps(drafts):
        await staged.put(some)
    return staged


async def assert_unseen(store: RedisStore, drafts: Sequence[Draft]) -> None:
    assert await store.get(ids(drafts)) == [None] * len(drafts)
    assert await find(store) == await find(store, tag="t") == await find(store, batch_id="b") == []
    assert (await store.counts()).pending == 0
    assert await store.queues() == []
    assert (await store.audit(None, 100)).items == []
    assert await claim(store) == []
    assert [await store.log(draft.id) for draft in drafts[:2]] == [[], []]


async def test_a_group_on_its_way_is_not_seen_and_then_all_of_it_is(store: RedisStore) -> None:
    drafts = large()
    staged = await stage(store, drafts)
    await assert_unseen(store, drafts)
    await staged.show("")

    assert ids(await find(store, limit=1000, oldest_first=True)) == ids(drafts)
    assert (await store.counts()).pending == len(drafts)
    assert ids(await claim(store, limit=1000)) == ids(drafts)


async def test_those_around_it_are_seen(store: RedisStore) -> None:
    """Also by who reads all in pages: one that is all hidden is not the end."""
    await enqueue(store, new_job("before"))
    staged = await stage(store, large())
    await enqueue(store, new_job("after"))

    assert ids(await find(store, oldest_first=True)) == ["before", "after"]
    assert [job.id for job, _ in (await store.audit(None, 100)).items if job] == ["before", "after"]
    await staged.show("")
    assert len(await find(store, limit=1000)) == 2 * STEP + 3


async def test_what_was_left_half_way_is_dropped(store: RedisStore, clock: FakeClock, own: redis.Redis) -> None:
    await enqueue(store, new_job("before"))
    before = kept(own)
    staged = await stage(store, large())
    await store.prune(100)
    assert kept(own)["body"] == 2 * STEP + 2, "its caller may be alive"
    clock.advance(120)
    await store.prune(100)

    assert kept(own) == before
    with pytest.raises(Overtaken):
        await staged.show("")
    with pytest.raises(Overtaken):
        await staged.put(new_jobs(1))
    assert kept(own) == before


async def test_a_group_that_is_being_dropped_cannot_be_shown(
    store: RedisStore, clock: FakeClock, own: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is dropped in steps too, and whoever does so may crash in between."""
    drafts = large()
    staged = await stage(store, drafts)
    clock.advance(120)
    site = store._sites.here()
    run, times = type(site).run, []

    async def crash(self: Any, script: Any, *words: Any) -> Any:
        if script.name == "stage_drop":
            times.append(script)
            if len(times) == 2:
                raise ConnectionError
        return await run(self, script, *words)

    monkeypatch.setattr(type(site), "run", crash)
    with pytest.raises(ConnectionError):
        await store.prune(100)
    monkeypatch.undo()
    with pytest.raises(Overtaken):
        await staged.show("")
    await assert_unseen(store, drafts)
    await store.prune(100)
    assert kept(own) == {}


async def test_a_caller_who_stalled_begins_again(store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    put, times = staging._Staged.put, []

    async def stalled(self: staging._Staged, drafts: Sequence[Draft]) -> None:
        times.append(len(drafts))
        if len(times) == 2:
            await staging.drop(store._sites.here(), self.group)
        await put(self, drafts)

    monkeypatch.setattr(staging._Staged, "put", stalled)
    drafts = large()
    assert [job.was_duplicate for job in await enqueue(store, *drafts)] == [False] * len(drafts)
    assert len(times) == 5
    assert ids(await claim(store, limit=1000)) == ids(drafts)


async def test_a_name_that_is_taken_meanwhile(
    store: RedisStore, own: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    show, first = staging._Staged.show, new_job("first", unique_key="u7")

    async def late(self: staging._Staged, hint: str) -> None:
        monkeypatch.undo()
        await enqueue(store, first)
        await show(self, hint)

    monkeypatch.setattr(staging._Staged, "show", late)
    jobs = await enqueue(store, *large())
    assert [job.id for job in jobs if job.was_duplicate] == ["first"]
    assert kept(own)["body"] == len(jobs)
    assert "staged" not in kept(own)


async def test_few_jobs_of_many_bytes_go_in_steps_too(store: RedisStore) -> None:
    drafts = [new_job(params=b'"%s"' % (b"x" * 700_000)) for _ in range(5)]
    assert [len(some) for some in staging._steps(drafts)] == [1] * 5
    jobs = await enqueue(store, *drafts)
    assert ids(jobs) == ids(drafts)
    assert [job.params_json for job in await claim(store)] == [draft.params_json for draft in drafts]


@pytest.mark.parametrize("dropped", ["before", "after"])
async def test_two_groups_with_the_same_ids(store: RedisStore, own: redis.Redis, dropped: str) -> None:
    """Whichever is shown first has them, and nothing of the other is left, whenever that goes."""
    drafts = [new_job(f"j{n}") for n in range(2 * STEP + 1)]
    first, second = await stage(store, drafts), await stage(store, drafts)
    await assert_unseen(store, drafts)
    if dropped == "before":
        await staging.drop(store._sites.here(), first.group)
    await second.show("")
    with pytest.raises(Overtaken):
        await first.show("")
    await staging.drop(store._sites.here(), first.group)

    assert kept(own) == dict.fromkeys(("body", "order", "ids", "pending"), len(drafts))
    assert ids([job for job in await store.get(ids(drafts)) if job]) == ids(drafts)
    assert ids(await claim(store, limit=1000)) == ids(drafts)


async def test_an_id_of_a_group_on_its_way_can_be_had_by_another(store: RedisStore, own: redis.Redis) -> None:
    drafts = [new_job(f"j{n}") for n in range(2 * STEP + 1)]
    staged = await stage(store, drafts)
    [job] = await enqueue(store, new_job("j7", task="other"))
    assert not job.was_duplicate
    with pytest.raises(Overtaken):
        await staged.show("")
    await staging.drop(store._sites.here(), staged.group)

    assert kept(own) == dict.fromkeys(("body", "order", "ids", "pending"), 1)
    assert ids(await claim(store, limit=1000)) == ["j7"]


async def test_what_is_left_of_a_job_is_read_while_its_id_is_on_its_way_again(
    store: RedisStore, clock: FakeClock
) -> None:
    await enqueue(store, new_job("j7", keep=1))
    [job] = await claim(store)
    await settle(store, completed(job))
    clock.advance(2)
    await store.prune(100)
    gone = await store.log("j7")
    assert [event.event for event in gone] == [EventName.PRUNED]
    staged = await stage(store, [new_job(f"j{n}") for n in range(2 * STEP + 1)])

    assert await store.log("j7") == gone
    cursor = (await store.audit(None, 100)).cursor
    assert [(job, event.job_id) for job, [event] in (await store.audit(cursor, 100)).items] == [(None, "j7")]
    await staged.show("")
    assert [event.event for event in await store.log("j7")] == [EventName.ENQUEUED]
