"""Claims that wait for the same: how many are woken, in which order, and that no job is left to no one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from dibs.broker.line import LONGEST_NAP
from dibs.broker.local import LocalBroker
from dibs.broker.protocol import Ask
from dibs.clock import FakeClock
from dibs.domain.errors import StoreUnavailable
from dibs.domain.job import ClaimRequest, Job
from dibs.domain.newjob import NewJob
from dibs.domain.settings import Config
from dibs.store import Rivals, alone
from dibs.stores.memory import MemoryStore
from dibs.testing.conformance.broker.verbs import enqueue

DAY = 86_400


class Counting(MemoryStore):
    """Counts what is asked of it; and fails, or takes its time, when it is told to."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.claims = self.waits = 0
        self.rivals: Rivals = alone  # as the last to wait was told
        self.askers: list[str] = []
        self.away = False
        self.slow = 0  # turns of the loop that a claim takes

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[list[Job]]:
        self.claims += len(requests)
        self.askers += [request.worker_id for request in requests]
        for _ in range(self.slow):
            await asyncio.sleep(0)
        if self.away:
            raise StoreUnavailable("away")
        return await super().claim(requests)

    async def wait(self, request: ClaimRequest, timeout: float, rivals: Rivals = alone, /) -> None:
        self.waits += 1
        self.rivals = rivals
        if self.away:
            raise StoreUnavailable("away")
        await super().wait(request, timeout)


class Telling(Counting):
    """Says of which queue it has heard, as a store may whose queues lie apart."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.heard: list[frozenset[str] | None] = []

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[list[Job]]:
        self.heard += [request.heard for request in requests]
        return await super().claim(requests)

    async def wait(  # type: ignore[override]  # it may
        self, request: ClaimRequest, timeout: float, rivals: Rivals = alone, /
    ) -> frozenset[str]:
        await super().wait(request, timeout, rivals)
        return frozenset({"mail"})


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Counting:
    return Counting(clock)


@pytest.fixture
def broker(store: Counting, clock: FakeClock) -> LocalBroker:
    return LocalBroker(store, clock, Config.of())


async def turns(number: int = 200) -> None:
    """Let everyone do what can be done without time passing."""
    for _ in range(number):
        await asyncio.sleep(0)


async def standing(broker: LocalBroker, number: int, **asked: object) -> list[asyncio.Task[list[Job]]]:
    """Have so many wait, in this order."""
    tasks = []
    for each in range(number):
        ask = Ask(worker_id=f"w{each}", **{"wait": DAY, **asked})  # type: ignore[arg-type]
        tasks.append(asyncio.create_task(broker.claim(ask)))
        await turns(20)
    return tasks


def done(tasks: list[asyncio.Task[list[Job]]]) -> list[int]:
    return [number for number, task in enumerate(tasks) if task.done() and not task.cancelled() and task.result()]


async def end(tasks: list[asyncio.Task[list[Job]]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_job_is_asked_for_twice_however_many_wait(broker: LocalBroker, store: Counting) -> None:
    tasks = await standing(broker, 100)
    for number in range(20):
        before = store.claims
        await enqueue(broker)
        await turns()
        assert done(tasks) == list(range(number + 1))  # whoever came first
        assert store.claims - before == 2
    await end(tasks)


async def test_what_was_heard_of_is_where_to_look_until_it_is_time_to_look_everywhere(clock: FakeClock) -> None:
    store = Telling(clock)
    broker = LocalBroker(store, clock, Config.of())
    tasks = await standing(broker, 1)
    await enqueue(broker, queue="mail")
    await turns()
    assert store.heard == [None, {"mail"}]
    assert done(tasks) == [0]

    tasks = await standing(broker, 1)
    clock.advance(Config.of().poll_every)
    await turns()
    assert store.heard[2:] == [None, None]
    await end(tasks)


@pytest.mark.parametrize("jobs", [1, 2, 3, 4, 7, 8, 50, 99])
async def test_many_jobs_at_once_are_asked_for_twice_each_at_most(
    broker: LocalBroker, store: Counting, jobs: int
) -> None:
    tasks = await standing(broker, 100)
    before = store.claims
    await broker.enqueue([NewJob("t") for _ in range(jobs)])
    await turns(1000)
    assert done(tasks) == list(range(jobs))
    assert jobs < store.claims - before <= 2 * jobs
    await end(tasks)


async def test_one_looks_for_all(broker: LocalBroker, store: Counting, clock: FakeClock) -> None:
    tasks = await standing(broker, 100)
    claims, waits = store.claims, store.waits
    for _ in range(10):
        clock.advance(1)
        await turns(50)
    assert (store.claims - claims, store.waits - waits) == (10, 10)
    await end(tasks)


async def test_one_who_gets_less_than_it_asked_for_is_the_last(broker: LocalBroker, store: Counting) -> None:
    tasks = await standing(broker, 10, limit=5)
    before = store.claims
    await broker.enqueue([NewJob("t") for _ in range(8)])
    await turns()
    assert [len(task.result()) for task in tasks if task.done()] == [5, 3]
    assert store.claims - before == 2
    await end(tasks)


async def test_those_who_want_something_else_stand_elsewhere(broker: LocalBroker, store: Counting) -> None:
    mail, other = await standing(broker, 5, queues=["mail"]), await standing(broker, 5, queues=["other"])
    before = store.claims
    await enqueue(broker, queue="other")
    await turns()
    assert (done(mail), done(other)) == ([], [0])
    assert store.claims - before <= 3  # this store wakes all who wait: one of each line
    await end(mail + other)


@pytest.mark.parametrize("leaver", [0, 1])
@pytest.mark.parametrize("turn", range(12))
async def test_one_who_leaves_keeps_no_one_from_a_job(
    broker: LocalBroker, store: Counting, leaver: int, turn: int
) -> None:
    """Whenever it leaves: as it looks, as it is called, as it claims. No time passes, and the jobs reach the others."""
    store.slow = 2
    tasks = await standing(broker, 6)
    await broker.enqueue([NewJob("t") for _ in range(3)])
    await turns(turn)
    tasks[leaver].cancel()
    await turns()
    left = [task for number, task in enumerate(tasks) if number != leaver]
    served = len(done(left)) + (len(done([tasks[leaver]])))
    assert served == 3
    await end(tasks)


async def test_when_the_time_of_the_first_is_over_the_next_one_looks(broker: LocalBroker, clock: FakeClock) -> None:
    [first] = await standing(broker, 1, wait=10)
    others = await standing(broker, 3)
    clock.advance(10)
    await turns()
    assert first.done()
    assert first.result() == []
    await enqueue(broker)
    await turns()
    assert done(others) == [0]
    await end(others)


async def test_the_time_of_those_behind_is_over_too(broker: LocalBroker, clock: FakeClock) -> None:
    first = await standing(broker, 1)
    others = await standing(broker, 3, wait=10)
    clock.advance(10)
    await turns()
    assert [task.result() for task in others] == [[], [], []]
    await enqueue(broker)
    await turns()
    assert done(first) == [0]


async def test_a_store_that_is_away_is_told_to_one_after_the_other(
    broker: LocalBroker, store: Counting, clock: FakeClock
) -> None:
    tasks = await standing(broker, 3)
    store.away = True
    clock.advance(1)
    await asyncio.wait(tasks, timeout=5)
    assert all(isinstance(task.exception(), StoreUnavailable) for task in tasks)
    store.away = False
    again = await standing(broker, 3)
    await enqueue(broker)
    await turns()
    assert done(again) == [0]
    await end(again)


@pytest.mark.parametrize("seed", range(60))
async def test_whatever_comes_and_goes_no_job_is_left_while_someone_waits(seed: int) -> None:
    """People join, give up and run out of time, jobs come; when it is quiet, jobs or people are left, never both."""
    chance, clock = random.Random(seed), FakeClock(seed)
    store = Counting(clock)
    broker = LocalBroker(store, clock, Config.of())
    tasks: list[asyncio.Task[list[Job]]] = []
    enqueued = 0
    for _ in range(60):
        for _ in range(chance.randrange(4)):
            what = chance.random()
            if what < 0.45:
                wait, limit = chance.choice([0.5, 5, DAY]), chance.choice([1, 1, 3])
                ask = Ask(worker_id=f"w{len(tasks)}", limit=limit, wait=wait)
                tasks.append(asyncio.create_task(broker.claim(ask)))
            elif what < 0.7:
                number = chance.choice([1, 1, 2, 6])
                enqueued += number
                await broker.enqueue([NewJob("t") for _ in range(number)])
            elif what < 0.85 and tasks:
                chance.choice(tasks).cancel()
            elif what < 0.95:
                clock.advance(chance.choice([0.1, 0.5]))
            store.slow = chance.randrange(4)
            await turns(chance.randrange(6))
        await turns()
        clock.advance(LONGEST_NAP)  # of one whose hints came to nothing again and again, as others had been faster
        await turns()
        counts = await broker.counts()
        waiting = [task for task in tasks if not task.done()]
        assert not (waiting and counts.pending), f"{len(waiting)} wait, {counts.pending} jobs are left"
    await end(tasks)
    got = [job.id for task in tasks if not task.cancelled() for job in task.result()]
    counts = await broker.counts()
    assert len(got) == len(set(got)) == counts.claimed == enqueued - counts.pending
