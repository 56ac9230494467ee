"""log: one event for every transition, and the state follows from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dibs.domain import transitions
from dibs.domain.job import Error, Event, EventName, Extension, Outcome, Status
from dibs.domain.retry import SECOND, Backoff
from dibs.testing.conformance.base import Suite
from dibs.testing.conformance.builders import (
    FOREVER,
    claim,
    claim_one,
    completed,
    enqueue,
    enqueue_and_claim,
    expired,
    failed,
    find,
    ids,
    new_job,
    new_jobs,
    reap,
    refused,
    released,
    settle,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.clock import FakeClock
    from dibs.domain.job import Job
    from dibs.store import Store

PENDING, CLAIMED, COMPLETED, FAILED, CANCELLED = Status

LEGAL: dict[EventName, tuple[set[Status | None], set[Status | None]]] = {
    EventName.ENQUEUED: ({None}, {PENDING}),
    EventName.CLAIMED: ({PENDING}, {CLAIMED}),
    EventName.COMPLETED: ({CLAIMED}, {COMPLETED}),
    EventName.RETRIED: ({CLAIMED}, {PENDING}),
    EventName.FAILED: ({CLAIMED}, {FAILED}),
    EventName.RELEASED: ({CLAIMED}, {PENDING}),
    EventName.EXPIRED: ({CLAIMED}, {PENDING, FAILED}),
    EventName.CANCELLED: ({PENDING, CLAIMED}, {CANCELLED}),
    EventName.REDRIVEN: ({COMPLETED, FAILED, CANCELLED}, {PENDING}),
    EventName.PRUNED: ({COMPLETED, FAILED, CANCELLED}, {None}),
}
COUNTED = {EventName.COMPLETED, EventName.RETRIED, EventName.FAILED, EventName.EXPIRED}


class Replayed(NamedTuple):
    """What the log says about a job."""

    status: Status | None = None
    fence: int = 0
    attempts: int = 0
    worker_id: str | None = None


def replay(events: Sequence[Event]) -> Replayed:
    """Go through a job's whole log, and see that each event follows from the one before."""
    state, at = Replayed(), 0
    for seq, event in enumerate(events, 1):
        before, after = LEGAL[event.event]
        assert event.seq == seq, f"a gap before {event}"
        assert event.from_ == state.status, f"{event} does not go on from {state}"
        assert event.from_ in before, event
        assert event.to in after, event
        assert event.at_us >= at, f"{event} is earlier than the one before"
        worker_id = event.worker_id if event.event is EventName.CLAIMED else state.worker_id
        if event.from_ is CLAIMED:
            assert event.worker_id == state.worker_id, f"{event} by another than {state}"
        fence = state.fence + (event.event is EventName.CLAIMED)
        attempts = 0 if event.event is EventName.REDRIVEN else state.attempts + (event.event in COUNTED)
        assert (event.fence, event.attempts) == (fence, attempts), f"{event} after {state}"
        state, at = Replayed(event.to, fence, attempts, worker_id), event.at_us
    return state


async def assert_replays(store: Store, jobs: Sequence[Job]) -> None:
    """See that every job is what its log says."""
    for job in jobs:
        events = await store.log(job.id)
        assert replay(events) == (job.status, job.fence, job.attempts, job.worker_id), job.id
        assert job.events == len(events)


class LogSuite(Suite):
    """The audit."""

    async def test_log_has_every_field_of_every_event(self, store: Store, clock: FakeClock) -> None:
        t0 = clock.now()
        await enqueue(store, new_job("j", delay=1, max_attempts=4))
        clock.advance(2)
        one = await claim_one(store, "w1", lease=10)
        clock.advance(1)
        await store.extend([Extension(one.ref)])
        clock.advance(1)
        await settle(store, failed(one, delay=5, error=Error("broke", "ValueError")))
        clock.advance(5)
        two = await claim_one(store, "w2", lease=10)
        await settle(store, released(two, delay=3))
        clock.advance(3)
        three = await claim_one(store, "w3", lease=10)
        await settle(store, completed(three))
        clock.advance(1)
        await settle(store, transitions.redrive("j", "ann"))
        clock.advance(1)
        await settle(store, transitions.cancel("j", "bob"))

        def event(  # noqa: PLR0917 - one line of the table below
            seq: int, name: str, from_: Status | None, to: Status, worker: str | None, actor: str | None,
            fence: int, attempts: int, due: int, lease: int | None, at: int, note: str = "",
        ) -> Event:  # fmt: skip
            end = None if lease is None else t0 + lease * SECOND
            return Event(
                "j", seq, EventName(name), from_, to, worker, actor,
                fence, attempts, t0 + due * SECOND, end, t0 + at * SECOND, note,
            )  # fmt: skip

        assert await store.log("j") == [
            event(1, "enqueued", None, PENDING, None, None, 0, 0, 1, None, 0),
            event(2, "claimed", PENDING, CLAIMED, "w1", None, 1, 0, 1, 12, 2),
            event(3, "retried", CLAIMED, PENDING, "w1", None, 1, 1, 9, 13, 4, "ValueError: broke"),
            event(4, "claimed", PENDING, CLAIMED, "w2", None, 2, 1, 9, 19, 9),
            event(5, "released", CLAIMED, PENDING, "w2", None, 2, 1, 12, 19, 9),
            event(6, "claimed", PENDING, CLAIMED, "w3", None, 3, 1, 12, 22, 12),
            event(7, "completed", CLAIMED, COMPLETED, "w3", None, 3, 2, 12, 22, 12),
            event(8, "redriven", COMPLETED, PENDING, None, "ann", 3, 0, 13, None, 13),
            event(9, "cancelled", PENDING, CANCELLED, None, "bob", 3, 0, 13, None, 14),
        ]

    async def test_log_of_an_expiry_is_one_event_whatever_it_leads_to(self, store: Store, clock: FakeClock) -> None:
        await enqueue(store, new_job("j", max_attempts=2, retry=Backoff(base=0)))
        for _ in range(2):
            await claim_one(store, lease=1)
            clock.advance(1)
            await reap(store, clock)

        events = [(event.event, event.to, event.attempts) for event in await store.log("j")]
        assert events[2::2] == [(EventName.EXPIRED, PENDING, 1), (EventName.EXPIRED, FAILED, 2)]
        note = (await store.log("j"))[2].note
        assert note.startswith("lease_expired: ")

    async def test_log_of_a_cancelled_claim_names_its_worker_and_who_did_it(self, store: Store) -> None:
        job = await enqueue_and_claim(store, new_job())
        await settle(store, transitions.cancel(job.id, "ann"))

        event = (await store.log(job.id))[-1]
        assert (event.event, event.from_, event.to) == (EventName.CANCELLED, CLAIMED, CANCELLED)
        assert (event.worker_id, event.actor, event.lease_expires_us) == ("worker", "ann", job.lease_expires_us)

    async def test_log_has_no_event_of_what_was_refused(self, store: Store, clock: FakeClock) -> None:
        job = await enqueue_and_claim(store, new_job("j"))
        await settle(store, released(job))
        log = await store.log("j")

        await refused(store, new_job("j", params=b"2"))
        await settle(store, completed(job), expired(job, clock), transitions.redrive("j"), transitions.purge("j"))

        assert await store.log("j") == log

    async def test_log_of_a_job_that_is_not_there(self, store: Store) -> None:
        assert await store.log("none") == []

    async def test_log_keeps_the_events_of_other_jobs_apart(self, store: Store) -> None:
        await enqueue(store, new_job("a"), new_job("A"), new_job("a."))
        await claim_one(store, id="A")

        assert [len(await store.log(id)) for id in ("a", "A", "a.")] == [1, 2, 1]
        assert {event.job_id for event in await store.log("A")} == {"A"}

    async def test_log_replayed_gives_the_state(self, store: Store, clock: FakeClock) -> None:
        await enqueue(store, *new_jobs(30, max_attempts=2, retry=Backoff(base=0)))
        for step in range(12):
            for at, job in enumerate(await claim(store, f"worker-{step}", limit=7, lease=2 + step % 2)):
                writes = [completed(job), failed(job), failed(job, retryable=False), released(job)]
                if at < len(writes):
                    assert await settle(store, writes[(at + step) % 4]) == [Outcome.APPLIED]
            clock.advance(1)
            await reap(store, clock)
            everything = await find(store)
            await settle(store, *map(transitions.cancel, ids(everything[step : step + 2])))
            await settle(store, *map(transitions.redrive, ids(everything[3 * step : 3 * step + 2])))
            await assert_replays(store, await find(store))
        clock.advance(FOREVER)

        await reap(store, clock)
        await assert_replays(store, await find(store))
