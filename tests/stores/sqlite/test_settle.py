"""Completing the quick way: the same outcomes, whoever has touched the job in between."""

import pytest
from msgspec.structs import replace

from dibs.clock import FakeClock
from dibs.domain import transitions
from dibs.domain.job import Extension, Outcome
from dibs.domain.transitions import cancel, redrive
from dibs.stores.sqlite import SqliteStore
from dibs.testing.conformance.builders import (
    claim,
    claim_one,
    completed,
    enqueue,
    enqueue_and_claim,
    expired,
    failed,
    new_job,
    read,
    released,
    settle,
)


@pytest.mark.parametrize("alike", [1, 3, 8])
async def test_complete_finds_those_that_were_taken_over(store: SqliteStore, clock: FakeClock, alike: int) -> None:
    await enqueue(store, *[new_job(f"{n}") for n in range(alike + 1)])
    jobs = await claim(store, lease=10)
    clock.advance(10)
    await store.write([expired(jobs[0], clock)])

    outcomes = await settle(store, *[completed(job) for job in jobs])

    assert outcomes == [Outcome.LOST] + [Outcome.APPLIED] * alike
    assert await settle(store, *[completed(job) for job in jobs]) == [Outcome.LOST] + [Outcome.REPEATED] * alike
    for job in jobs[1:]:
        assert [event.event for event in await store.log(job.id)] == ["enqueued", "claimed", "completed"]


@pytest.mark.parametrize("second", [False, True])
async def test_complete_shows_the_progress_that_was_made(store: SqliteStore, clock: FakeClock, second: bool) -> None:
    job = await enqueue_and_claim(store, new_job("a"))
    clock.advance(second)
    assert await store.extend([Extension(job.ref, 0.5, "half")]) == [Outcome.APPLIED]

    assert await settle(store, completed(job)) == [Outcome.APPLIED]

    after = await read(store, "a")
    assert (after.progress, after.progress_note) == (0.5, "half")


@pytest.mark.parametrize("reopen", [False, True], ids=["the claimer", "another process"])
async def test_complete_stores_what_the_domain_says(store: SqliteStore, clock: FakeClock, reopen: bool) -> None:
    await enqueue(store, *[new_job(f"{n}", tags=("x",), batch_id="b", max_attempts=n + 2) for n in range(6)])
    first = await claim(store)
    await store.write([failed(job) for job in first])
    jobs = await claim(store)
    clock.advance(1)
    writes = [completed(job, b"1" if n % 2 else None) for n, job in enumerate(jobs)]
    other = SqliteStore(store.path, clock) if reopen else store

    assert await settle(other, *writes) == [Outcome.APPLIED] * len(jobs)

    for job, write in zip(jobs, writes, strict=True):
        after = transitions.apply(job, write, clock.now())
        assert await read(store, job.id) == replace(after, lease_token="")
    if reopen:
        await other.close()


async def test_a_claim_answers_with_what_is_stored(store: SqliteStore, clock: FakeClock) -> None:
    await enqueue(store, *[new_job(f"{n}", tags=("x",), batch_id="b", idempotency_key=f"{n}") for n in range(3)])
    await store.write([failed(job) for job in await claim(store)])
    clock.advance(1)

    for job in await claim(store, lease=7):
        assert replace(job, lease_token="") == await read(store, job.id)


async def test_complete_by_another_token_or_fence_is_lost(store: SqliteStore) -> None:
    first = await enqueue_and_claim(store, new_job("a"))
    await settle(store, released(first))
    second = await claim_one(store)

    assert await settle(store, completed(first)) == [Outcome.LOST]
    assert await settle(store, completed(second)) == [Outcome.APPLIED]


async def test_writes_of_one_call_take_their_turns(store: SqliteStore) -> None:
    old = await enqueue_and_claim(store, new_job("old", unique_key="k"))
    await settle(store, cancel("old"))
    new = await enqueue_and_claim(store, new_job("new", unique_key="k"))

    assert await settle(store, redrive("old"), completed(new)) == [Outcome.CONFLICT, Outcome.APPLIED]
    assert await settle(store, redrive("old"), redrive("new")) == [Outcome.APPLIED, Outcome.CONFLICT]
    assert await settle(store, completed(old), cancel("old"), redrive("new")) == [
        Outcome.LOST, Outcome.APPLIED, Outcome.APPLIED,
    ]  # fmt: skip


async def test_jobs_between_those_that_were_picked_are_left_alone(store: SqliteStore) -> None:
    await enqueue(store, *[new_job(f"{n}", task="ab"[n % 2]) for n in range(12)])
    taken = await claim(store, tasks=("a",))
    assert await settle(store, *[completed(job) for job in taken]) == [Outcome.APPLIED] * 6

    assert [job.id for job in await claim(store)] == ["1", "3", "5", "7", "9", "11"]
    assert [event.event for event in await store.log("10")] == ["enqueued", "claimed", "completed"]
