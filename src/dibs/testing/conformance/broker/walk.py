"""A random walk through everything a broker can do; then its own log must prove the promises."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from dibs.domain.errors import NotFound, UniqueConflict, WrongState
from dibs.domain.job import Filter, Outcome, Status
from dibs.testing.conformance.broker.base import TUNED, Suite
from dibs.testing.conformance.broker.verbs import claim, complete, enqueue, extend, fail, find, read, release, settle

if TYPE_CHECKING:
    from dibs.broker.protocol import Broker, Ending
    from dibs.clock import FakeClock
    from dibs.domain.job import Job

STEPS = 300


def _endings(job: Job) -> list[Ending]:
    return [complete(job), release(job), fail(job), fail(job, retryable=False, told=False)]


class Walker:
    """Does one thing after another; remembers what it holds, and what it held."""

    def __init__(self, broker: Broker, clock: FakeClock, seed: int) -> None:
        self.broker, self.clock, self.random = broker, clock, Random(seed)
        self.known: set[str] = set()
        self.held: list[Job] = []
        self.past: list[Job] = []

    async def step(self) -> None:
        """Do something."""
        await self.random.choice(
            [
                *(self.enqueue, self.claim, self.settle) * 2,
                *(self.extend, self.stale, self.operate, self.wander),
            ]
        )()

    async def enqueue(self) -> None:
        draw = self.random
        job = await enqueue(
            self.broker,
            draw.choice("ab"),
            None,
            queue=draw.choice(["default", "other", TUNED]),
            priority=draw.choice(["low", 0, 5]),
            delay=draw.choice([None, None, 0, 5]),
            max_attempts=draw.choice([None, 1, 2]),
            unique_key=draw.choice([None, None, "u", "v"]),
            retention=draw.choice([None, 0, 10]),
            lease=draw.choice([None, 5]),
        )
        self.known.add(job.id)

    async def claim(self) -> None:
        for job in await claim(
            self.broker,
            self.random.choice(["w1", "w2"]),
            limit=self.random.randint(1, 3),
            queues=self.random.choice([None, ["default"], ["other", TUNED]]),
            order=self.random.choice(["priority", "created_at", "random"]),
            lease=self.random.choice([None, 3]),
        ):
            assert job.id in self.known
            assert all(job.fence > old.fence for old in self.past if old.id == job.id)
            self.past += [old for old in self.held if old.id == job.id]
            self.held = [old for old in self.held if old.id != job.id] + [job]

    async def settle(self) -> None:
        if not self.held:
            return
        job = self.held.pop(self.random.randrange(len(self.held)))
        self.past.append(job)
        [outcome] = await settle(self.broker, self.random.choice(_endings(job)))
        assert outcome in {Outcome.APPLIED, Outcome.LOST, Outcome.MISSING}

    async def extend(self) -> None:
        await extend(self.broker, *(job.ref for job in self.held))

    async def stale(self) -> None:
        for job in self.past[-3:]:
            [outcome] = await settle(self.broker, self.random.choice(_endings(job)))
            assert outcome is not Outcome.APPLIED

    async def operate(self) -> None:
        draw = self.random
        id = draw.choice([*sorted(self.known), "none"])
        try:
            await draw.choice([self.broker.cancel, self.broker.redrive, self.broker.purge])([id])
            await self.broker.redrive([], where=Filter(queue=draw.choice(["default", "other"])))
        except (NotFound, UniqueConflict, WrongState):
            pass
        await draw.choice([self.broker.pause, self.broker.resume, self.broker.resume])("other")

    async def wander(self) -> None:
        self.clock.advance(self.random.choice([0.5, 2, 6]))


class WalkSuite(Suite):
    """Promises 1 to 3, 6 to 9 and 12, on whatever happened."""

    async def test_verify_an_empty_store(self, broker: Broker) -> None:
        assert (await broker.verify()).ok

    @pytest.mark.parametrize("seed", range(5))
    async def test_verify_after_a_random_walk(self, broker: Broker, clock: FakeClock, seed: int) -> None:
        walker = Walker(broker, clock, seed)
        for _ in range(STEPS):
            await walker.step()

        report = await broker.verify()
        assert report.ok, report
        jobs = await find(broker, limit=1000)
        assert {job.id for job in jobs} <= walker.known
        assert all(job.attempts <= job.max_attempts for job in jobs)
        counts = await broker.counts()
        assert sum(job.status is Status.CLAIMED for job in jobs) == counts.claimed
        assert sum(job.status.finished for job in jobs) == counts.completed + counts.failed + counts.cancelled
        assert len(jobs) == counts.unfinished + counts.completed + counts.failed + counts.cancelled
        for job in jobs:
            last = (await broker.log(job.id))[-1]
            assert (last.to, last.fence, last.attempts) == (job.status, job.fence, job.attempts)

    async def test_every_job_ends_where_workers_settle(self, broker: Broker, clock: FakeClock) -> None:
        walker = Walker(broker, clock, 7)
        for _ in range(STEPS):
            await walker.step()
        await broker.resume("other")
        for _ in range(100):
            clock.advance(3600)
            await settle(broker, *(complete(job) for job in await claim(broker)))
            if not (await broker.counts()).unfinished:
                break

        assert (await broker.counts()).unfinished == 0
        assert (await broker.verify()).ok
        for job in await find(broker, limit=1000):
            assert (await read(broker, job.id)).status.finished
