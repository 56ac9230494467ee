"""beat, retire, workers: who is there, and exactly the claims that are named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dibs.domain.errors import InvalidRequest, TooLarge
from dibs.domain.job import Extension, Outcome, Status
from dibs.testing.conformance.broker.base import Suite
from dibs.testing.conformance.broker.verbs import claim, complete, enqueue_some, read, settle, take

if TYPE_CHECKING:
    from dibs.broker.protocol import Broker
    from dibs.clock import FakeClock


async def status_of(broker: Broker, worker_id: str) -> str:
    """Say what is thought of a worker."""
    [status] = [worker.status for worker in await broker.workers() if worker.worker_id == worker_id]
    return status


class RosterSuite(Suite):
    """Workers come, beat and go; a claim is kept or given back only by its own three."""

    async def test_beat_records_the_worker(self, broker: Broker, clock: FakeClock) -> None:
        assert await broker.beat("w1", metadata={"host": "a", "tags": ["x"]}) == []
        clock.advance(3)
        assert await broker.beat("w0") == []

        w0, w1 = await broker.workers()
        assert (w0.worker_id, w0.status, w0.last_seen_us, w0.metadata) == ("w0", "active", clock.now(), {})
        assert (w1.worker_id, w1.last_seen_us) == ("w1", clock.now() - 3_000_000)
        assert (w1.metadata, w1.active_tasks) == ({"host": "a", "tags": ["x"]}, 0)

    async def test_beat_that_is_missed_twice_makes_a_worker_stale(self, broker: Broker, clock: FakeClock) -> None:
        await broker.beat("w", every=10)
        clock.advance(20)
        assert await status_of(broker, "w") == "active"
        clock.advance(0.001)
        assert await status_of(broker, "w") == "stale"
        await broker.beat("w", every=10)
        assert await status_of(broker, "w") == "active"

    async def test_beat_keeps_exactly_the_claims_that_are_named(self, broker: Broker, clock: FakeClock) -> None:
        await enqueue_some(broker, 3)
        kept, other, lost = await claim(broker, worker_id="w")
        await settle(broker, complete(lost))
        clock.advance(5)

        outcomes = await broker.beat("w", [Extension(kept.ref), Extension(lost.ref)])

        assert outcomes == [Outcome.APPLIED, Outcome.LOST]
        assert (await read(broker, kept.id)).lease_expires_us == (kept.lease_expires_us or 0) + 5_000_000
        assert (await read(broker, other.id)).lease_expires_us == other.lease_expires_us
        assert [worker.active_tasks for worker in await broker.workers()] == [2]

    async def test_beat_of_a_namesake_keeps_nothing(self, broker: Broker, clock: FakeClock) -> None:
        job = await take(broker, worker_id="w")
        clock.advance(5)
        await broker.beat("w")

        assert (await read(broker, job.id)).lease_expires_us == job.lease_expires_us

    async def test_retire_releases_exactly_the_claims_that_are_named(self, broker: Broker) -> None:
        await enqueue_some(broker, 2)
        given, kept = await claim(broker, worker_id="w")
        await broker.beat("w", metadata={"host": "a"})

        written = await broker.retire("w", [given.ref])

        assert written == [(Outcome.APPLIED, Status.PENDING)]
        assert (await read(broker, given.id)).status is Status.PENDING
        assert (await read(broker, kept.id)).status is Status.CLAIMED
        [worker] = await broker.workers()
        assert (worker.status, worker.active_tasks, worker.metadata) == ("inactive", 1, {"host": "a"})

    async def test_retire_of_a_worker_that_no_one_knows(self, broker: Broker) -> None:
        assert await broker.retire("w") == []
        assert await status_of(broker, "w") == "inactive"

    async def test_a_worker_is_forgotten_after_a_day(self, broker: Broker, clock: FakeClock) -> None:
        await broker.beat("w")
        clock.advance(86_401)
        assert await broker.workers() == []

    @pytest.mark.parametrize(
        ("worker_id", "metadata", "field"),
        [
            ("", None, "worker_id"),
            ("a b", None, "worker_id"),
            ("w", [], "metadata"),
            ("w", {"x": object()}, "metadata"),
        ],
    )
    async def test_beat_refuses_nonsense(self, broker: Broker, worker_id: Any, metadata: Any, field: str) -> None:
        with pytest.raises(InvalidRequest) as error:
            await broker.beat(worker_id, metadata=metadata)
        assert error.value.problems[0].field.startswith(field)
        assert await broker.workers() == []

    async def test_beat_refuses_metadata_that_is_too_large(self, broker: Broker) -> None:
        with pytest.raises(TooLarge) as error:
            await broker.beat("w", metadata={"x": "x" * 20_000})
        assert error.value.field == "metadata"
