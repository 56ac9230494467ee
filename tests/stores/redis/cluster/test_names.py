"""Ids and keys are unique over all shards, though it takes two steps, and any process may stop after either of them."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from dibs.domain import transitions
from dibs.domain.job import Draft, Job, Outcome, Status
from dibs.store import Refusal
from dibs.stores.redis import ClusterStore
from dibs.stores.redis.cluster import owners
from dibs.stores.redis.cluster.inserting import Insertion
from dibs.stores.redis.cluster.shards import home
from dibs.testing.conformance.builders import (
    claim,
    claim_one,
    completed,
    enqueue,
    enqueue_and_claim,
    find,
    ids,
    new_job,
    read,
    settle,
)


class Stalled(Exception):
    """A process that stops here, for good as far as others know."""


def stall(monkeypatch: pytest.MonkeyPatch, target: type, step: str) -> Callable[[], None]:
    """Let whoever reaches a step stop before it; give what lets others pass."""

    async def never(*_: Any, **__: Any) -> None:
        raise Stalled

    monkeypatch.setattr(target, step, never)
    return monkeypatch.undo


def queues_apart() -> tuple[str, str]:
    """Name two queues that are at home in different shards."""
    return next((f"a{n}", f"b{n}") for n in range(100) if home(f"a{n}") != home(f"b{n}"))


def named(what: str, queue: str) -> Draft:
    """Make a job whose id or key is x."""
    if what == "id":
        return new_job("x", queue=queue)
    return (
        new_job(queue=queue, idempotency_key="x") if what == "idempotency_key" else new_job(queue=queue, unique_key="x")
    )


async def one_job(store: ClusterStore) -> Job:
    [job] = await find(store)
    return job


@pytest.mark.parametrize("what", ["id", "idempotency_key", "unique_key"])
async def test_one_job_of_many_that_are_enqueued_at_once(store: ClusterStore, other: ClusterStore, what: str) -> None:
    """To different queues, through different processes; whoever comes second is told of the first, or refused."""
    a, b = queues_apart()
    drafts = [named(what, queue) for queue in (a, b) * 5]
    answers = await asyncio.gather(
        *(on.insert([[draft]]) for draft, on in zip(drafts, [store, other, other] * 4, strict=False))
    )

    job = await one_job(store)
    for draft, [answer] in zip(drafts, answers, strict=True):
        if isinstance(answer, Refusal):
            assert what != "unique_key"
            assert draft.queue != job.queue
            assert answer.job.id == job.id
        else:
            assert ids(answer) == [job.id]
    new = [answer for [answer] in answers if not isinstance(answer, Refusal) and not answer[0].was_duplicate]
    assert len(new) == 1


@pytest.mark.parametrize("what", ["id", "idempotency_key", "unique_key"])
async def test_who_dies_after_reserving_leaves_the_name_to_the_next(
    store: ClusterStore, other: ClusterStore, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = queues_apart()
    draft = named(what, a)
    go_on = stall(monkeypatch, Insertion, "_make")
    with pytest.raises(Stalled):
        await store.insert([[draft]])
    go_on()
    assert await other.get([draft.id]) == [None]

    late = named(what, b)
    [made] = await enqueue(other, late)
    assert (made.queue, made.was_duplicate) == (b, False)
    assert await one_job(other) == await read(other, late.id)


async def test_who_stalled_after_reserving_makes_nothing_once_another_has_taken_over(
    store: ClusterStore, other: ClusterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = queues_apart()
    reached, go_on = asyncio.Event(), asyncio.Event()
    make = Insertion._make

    async def slowly(self: Insertion, *args: Any) -> None:
        if self._owners is store._sites.here().owners and not go_on.is_set():
            reached.set()
            await go_on.wait()
        await make(self, *args)

    monkeypatch.setattr(Insertion, "_make", slowly)
    stalled = asyncio.ensure_future(store.insert([[new_job("first", unique_key="x", queue=a)]]))
    await reached.wait()
    [made] = await enqueue(other, new_job("second", unique_key="x", queue=b))
    assert not made.was_duplicate
    go_on.set()

    [[answer]] = cast("list[list[Job]]", await stalled)
    assert (answer.id, answer.was_duplicate) == ("second", True)
    assert ids(await find(store)) == ["second"]
    [retried] = await enqueue(store, new_job("third", queue=a))  # and its pass is as good as new
    assert not retried.was_duplicate


async def test_who_takes_over_finds_out_that_the_job_has_come_meanwhile(
    store: ClusterStore, other: ClusterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at a job that is not there and the taking over of its name, it is made after all."""
    a, b = queues_apart()
    reached, go_on = asyncio.Event(), asyncio.Event()
    make, take_over = Insertion._make, owners.Owners.take_over

    async def slowly(self: Insertion, *args: Any) -> None:
        if self._owners is store._sites.here().owners:
            reached.set()
            await go_on.wait()
        await make(self, *args)

    async def late(self: owners.Owners, met: Any, *args: Any) -> None:
        if self is other._sites.here().owners and not any(one.waits for one in met) and not go_on.is_set():
            go_on.set()
            await first
        await take_over(self, met, *args)

    monkeypatch.setattr(Insertion, "_make", slowly)
    monkeypatch.setattr(owners.Owners, "take_over", late)
    first = asyncio.ensure_future(store.insert([[new_job("first", unique_key="x", queue=a)]]))
    await reached.wait()
    [answer] = await enqueue(other, new_job("second", unique_key="x", queue=b))

    assert go_on.is_set()
    assert (answer.id, answer.was_duplicate) == ("first", True)
    assert ids(await find(store)) == ["first"]


async def test_of_two_who_take_over_a_name_one_has_it(
    store: ClusterStore, other: ClusterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have seen that whoever had reserved it is gone; the later one finds that another was faster."""
    a, b = queues_apart()
    go_on = stall(monkeypatch, Insertion, "_make")
    with pytest.raises(Stalled):
        await store.insert([[new_job("dead", unique_key="x", queue=a)]])
    go_on()
    take_over, faster = owners.Owners.take_over, list[Job]()

    async def late(self: owners.Owners, met: Any, *args: Any) -> None:
        if self is other._sites.here().owners and not any(one.waits for one in met) and not faster:
            faster.extend(await enqueue(store, new_job("faster", unique_key="x", queue=a)))
        await take_over(self, met, *args)

    monkeypatch.setattr(owners.Owners, "take_over", late)
    [answer] = await enqueue(other, new_job("later", unique_key="x", queue=b))

    assert [job.was_duplicate for job in faster] == [False]
    assert (answer.id, answer.was_duplicate) == ("faster", True)
    assert ids(await find(store)) == ["faster"]


async def test_a_crash_in_the_middle_of_a_group_is_completed_by_the_same_ids(
    store: ClusterStore, other: ClusterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = queues_apart()
    drafts = [new_job(f"{queue}-{n}", queue=queue, unique_key=f"{queue}-{n}") for queue in (a, b) for n in range(3)]
    make = Insertion._make_in

    async def half(self: Insertion, shard: int, *args: Any) -> None:
        if shard == home(b):
            raise Stalled
        await make(self, shard, *args)

    monkeypatch.setattr(Insertion, "_make_in", half)
    with pytest.raises(Stalled):
        await store.insert([drafts])
    monkeypatch.undo()
    assert sorted(ids(await find(other))) == [f"{a}-0", f"{a}-1", f"{a}-2"]

    jobs = await enqueue(other, *drafts)
    assert ids(jobs) == ids(drafts)
    assert [job.was_duplicate for job in jobs] == [True] * 3 + [False] * 3
    assert sorted(ids(await find(other))) == sorted(ids(drafts))


async def test_a_group_that_is_refused_leaves_nothing_behind(store: ClusterStore) -> None:
    a, b = queues_apart()
    await enqueue(store, new_job("taken", queue=b))
    drafts = [new_job("new", queue=a, unique_key="u"), new_job("taken", queue=a)]
    [refusal] = await store.insert([drafts])
    assert isinstance(refusal, Refusal)
    assert (refusal.index, refusal.field) == (1, "id")

    [made] = await enqueue(store, new_job("new", queue=b, unique_key="u"))  # at once: nothing is reserved any more
    assert not made.was_duplicate


async def test_a_finished_job_leaves_its_unique_key_to_the_next(store: ClusterStore, other: ClusterStore) -> None:
    a, b = queues_apart()
    for n, (queue, on) in enumerate([(a, store), (b, other), (b, store), (a, other)]):
        [job] = await enqueue(on, new_job(f"job-{n}", queue=queue, unique_key="x"))
        assert not job.was_duplicate
        [second] = await enqueue(store, new_job(queue=b, unique_key="x"))
        assert (second.id, second.was_duplicate) == (f"job-{n}", True)
        await settle(other, completed(await claim_one(on)))


async def test_redriving_takes_the_key_again_or_is_refused(store: ClusterStore, other: ClusterStore) -> None:
    a, b = queues_apart()
    job = await enqueue_and_claim(store, new_job("old", queue=a, unique_key="x"))
    await settle(store, completed(job))
    assert await settle(other, transitions.redrive("old")) == [Outcome.APPLIED]
    [second] = await enqueue(store, new_job(queue=b, unique_key="x"))
    assert (second.id, second.was_duplicate) == ("old", True)
    await settle(store, completed(await claim_one(store)))
    await enqueue(store, new_job("new", queue=b, unique_key="x"))

    assert await settle(other, transitions.redrive("old")) == [Outcome.CONFLICT]
    await settle(store, completed(await claim_one(store)))
    assert await settle(other, transitions.redrive("old")) == [Outcome.APPLIED]


async def test_redrive_and_enqueue_race_for_a_key(store: ClusterStore, other: ClusterStore) -> None:
    """Whoever is faster, one unfinished job has it."""
    a, b = queues_apart()
    for n in range(15):
        key = f"key-{n}"
        await settle(store, completed(await enqueue_and_claim(store, new_job(f"old-{n}", queue=a, unique_key=key))))
        redriven, [new] = await asyncio.gather(
            settle(store, transitions.redrive(f"old-{n}")), enqueue(other, new_job(f"new-{n}", queue=b, unique_key=key))
        )
        assert (redriven == [Outcome.APPLIED]) == new.was_duplicate
        unfinished = [job.id for job in await find(store) if job.unique_key == key and not job.status.finished]
        assert unfinished == [new.id]


async def test_a_redrive_that_stalled_takes_no_key_that_another_has_by_now(
    store: ClusterStore, other: ClusterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = queues_apart()
    await settle(store, completed(await enqueue_and_claim(store, new_job("old", queue=a, unique_key="x"))))
    reached, go_on = asyncio.Event(), asyncio.Event()
    take = owners.Owners.take_keys

    async def slowly(self: owners.Owners, *args: Any) -> Any:
        taken = await take(self, *args)
        if self is store._sites.here().owners and not go_on.is_set():
            reached.set()
            await go_on.wait()
        return taken

    monkeypatch.setattr(owners.Owners, "take_keys", slowly)
    stalled = asyncio.ensure_future(settle(store, transitions.redrive("old")))
    await reached.wait()
    [made] = await enqueue(other, new_job("new", queue=b, unique_key="x"))
    assert not made.was_duplicate
    go_on.set()

    assert await stalled == [Outcome.CONFLICT]
    assert (await read(store, "old")).status is Status.COMPLETED


async def test_names_go_with_their_jobs(store: ClusterStore, clock: Any) -> None:
    """Pruned, or not kept at all: nothing is left of them, and they may be used again at once."""
    for round_ in range(2):
        drafts = [
            new_job(
                f"{keep}-{n}", keep=keep, idempotency_key=f"k-{keep}-{n}", unique_key=f"u-{keep}-{n}", queue=f"q{n}"
            )
            for keep in (0, 5)
            for n in range(8)
        ]
        jobs = await enqueue(store, *drafts)
        assert not any(job.was_duplicate for job in jobs), round_
        assert await settle(store, *map(completed, await claim(store, limit=100))) == [Outcome.APPLIED] * 16
        clock.advance(10)
        assert await store.prune(100) == 8
        names = [
            name for draft in drafts for name in owners.names_of(draft.id, draft.idempotency_key, draft.unique_key)
        ]
        assert await store._sites.here().owners.read(names) == [None] * len(names)


async def test_a_job_is_found_though_its_reservation_was_lost(store: ClusterStore, other: ClusterStore) -> None:
    """As after a failover: whoever enqueues it again is told of it, and then it is found by its id."""
    await enqueue(store, new_job("x", queue="q", unique_key="u"))
    mine = store._sites.here().owners
    names = owners.names_of("x", None, "u")
    found = await mine.read(names)
    await mine.drop({name: owner for name, owner in zip(names, found, strict=True) if owner is not None})

    [same] = await enqueue(other, new_job("x", queue="q"))
    assert (same.id, same.was_duplicate) == ("x", True)
    [held] = await enqueue(other, new_job("y", queue="q", unique_key="u"))
    assert (held.id, held.was_duplicate) == ("x", True)
    assert (await read(other, "x")).unique_key == "u"


async def test_a_key_of_a_duplicate_goes_to_the_job_that_has_it(store: ClusterStore) -> None:
    a, b = queues_apart()
    await enqueue(store, new_job("old", queue=a))
    jobs = await enqueue(
        store, new_job("old", queue=a, idempotency_key="k"), new_job("new", queue=b, idempotency_key="k")
    )

    [owner] = await store._sites.here().owners.read([owners.by_key("k")])
    assert owner is not None
    assert [(job.id, job.was_duplicate) for job in jobs] == [("old", True), ("new", False)]
    assert (owner.id, owner.shard) == ("new", home(b))
