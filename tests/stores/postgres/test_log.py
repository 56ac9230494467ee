"""The log of a job whose row tells the end of it: the same to whoever reads it, before and after it is written down."""

import asyncpg

from dibs.clock import FakeClock
from dibs.domain import transitions
from dibs.domain.job import Event, EventName, Extension, Job, Outcome
from dibs.stores.postgres import PostgresStore
from dibs.testing.conformance.builders import claim_one, completed, enqueue, new_job, settle

WRITTEN = "SELECT event FROM dibs_event ORDER BY job, n"


async def told(store: PostgresStore, id: str) -> list[Event]:
    [[_, log]] = [item for item in (await store.audit(None, 10)).items if item[0] is not None and item[0].id == id]
    assert await store.log(id) == log
    return log


async def finished(store: PostgresStore, clock: FakeClock) -> Job:
    """A job that was claimed, extended and completed, each at a time of its own."""
    await enqueue(store, new_job("a"))
    clock.advance(1)
    job = await claim_one(store, lease=10)
    clock.advance(3)
    assert await store.extend([Extension(job.ref)]) == [Outcome.APPLIED]
    clock.advance(2)
    assert await settle(store, completed(job, b"1")) == [Outcome.APPLIED]
    return job


async def test_nothing_is_written_of_a_job_that_is_claimed_and_completed(
    store: PostgresStore, own: asyncpg.Connection, clock: FakeClock
) -> None:
    job = await finished(store, clock)
    began = job.claimed_us
    assert began is not None
    log = await told(store, "a")

    assert await own.fetch(WRITTEN) == []
    assert [event.event for event in log] == [EventName.ENQUEUED, EventName.CLAIMED, EventName.COMPLETED]
    assert [event.seq for event in log] == [1, 2, 3]
    assert [event.attempts for event in log] == [0, 0, 1]
    assert [event.at_us - began for event in log] == [-1_000_000, 0, 5_000_000]
    ends = [event.lease_expires_us - began for event in log if event.lease_expires_us is not None]
    assert ends == [10_000_000, 13_000_000], "as it was when each of them happened"


async def test_what_the_row_told_is_written_as_soon_as_it_says_something_else(
    store: PostgresStore, own: asyncpg.Connection, clock: FakeClock
) -> None:
    await finished(store, clock)
    before = await told(store, "a")
    await store.write([transitions.redrive("a")])

    assert [row[0] for row in await own.fetch(WRITTEN)] == ["claimed", "completed", "redriven"]
    assert (await told(store, "a"))[:3] == before
    job = await claim_one(store)
    assert await settle(store, transitions.release(job.ref)) == [Outcome.APPLIED]
    assert [row[0] for row in await own.fetch(WRITTEN)] == ["claimed", "completed", "redriven", "claimed", "released"]
    assert [event.seq for event in await told(store, "a")] == [1, 2, 3, 4, 5, 6]
    assert (await told(store, "a"))[:3] == before
