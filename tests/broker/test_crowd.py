"""Many processes that wait for the same: few ask for a job that comes, all look in turn, and no job is left to no one.

Each has a broker of its own on one store, as processes have; so nothing but the store tells one of another.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from dibs.broker.crowd import ANSWERS, BELIEVED, FOR_EACH, IN_VAIN, YOUNG, Crowd
from dibs.broker.local import LocalBroker
from dibs.broker.protocol import Ask, Ending
from dibs.clock import FakeClock
from dibs.domain.errors import StoreUnavailable
from dibs.domain.job import ClaimRequest, Document
from dibs.domain.settings import Config
from dibs.testing.conformance.broker.verbs import enqueue
from tests.broker.test_line import DAY, Counting, turns

MANY = 40
POLL = Config.of().poll_every
GAP = POLL / 20
"""Between two jobs: so long that no one takes the hints for a loop that comes to nothing."""


class Process:
    """A worker as the store sees it: it says that it is there, claims, completes, and claims again."""

    def __init__(self, name: str, store: Counting, clock: FakeClock, queue: str | None = None) -> None:
        self._name, self._queues = name, None if queue is None else [queue]
        self._broker = LocalBroker(store, clock, Config.of())
        self.ran = 0
        self.running: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        await self._broker.beat(self._name, metadata={"queues": self._queues, "tasks": None})
        self.running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            jobs = await self._broker.claim(Ask(worker_id=self._name, queues=self._queues, wait=DAY))
            self.ran += len(jobs)
            await self._broker.settle([Ending(job.ref, "complete") for job in jobs])

    async def end(self) -> None:
        if self.running is not None:
            self.running.cancel()
            await asyncio.gather(self.running, return_exceptions=True)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Counting:
    return Counting(clock)


async def standing(store: Counting, clock: FakeClock, number: int, **options: str) -> list[Process]:
    crowd = [Process(f"w{each}-{len(options)}", store, clock, **options) for each in range(number)]
    for process in crowd:
        await process.begin()
    await turns()
    return crowd


async def end(crowd: list[Process]) -> None:
    for process in crowd:
        await process.end()


async def come(broker: LocalBroker, clock: FakeClock, jobs: int = 1, queue: str = "default") -> None:
    """Jobs come in, one after the other."""
    for _ in range(jobs):
        clock.advance(GAP)
        await turns(50)
        await enqueue(broker, queue=queue)
        await turns(50)


async def test_a_job_is_asked_for_by_few_however_many_wait(store: Counting, clock: FakeClock) -> None:
    crowd = await standing(store, clock, MANY)
    broker, asked = LocalBroker(store, clock, Config.of()), list[int]()
    for _ in range(60):
        before = store.claims
        await come(broker, clock)
        asked.append(store.claims - before)
    assert asked[0] >= MANY  # no one knows yet how many there are
    settled = asked[10 * IN_VAIN :]
    assert sum(settled) / len(settled) < MANY / 2
    clock.advance(POLL)
    await turns()
    assert sum(process.ran for process in crowd) == 60
    await end(crowd)


async def test_a_job_that_is_asked_for_by_no_one_waits_for_a_look(store: Counting, clock: FakeClock) -> None:
    """The crowd goes but for one that has lost many a race: it takes the job as it looks, and the next ones at once."""
    crowd = await standing(store, clock, MANY)
    broker = LocalBroker(store, clock, Config.of())
    await come(broker, clock, 3 * IN_VAIN)
    last = min(crowd, key=lambda process: process.ran)
    before = last.ran
    await end([process for process in crowd if process is not last])
    await enqueue(broker)
    clock.advance(POLL)
    await turns()
    assert last.ran == before + 1
    for number in range(5):
        await come(broker, clock)
        assert last.ran == before + 2 + number
    await end(crowd)


async def drawn(clock: FakeClock, workers: int, here: int) -> float:
    """The share of hints that are answered at once by one of so many workers that has had nothing for long."""

    async def count(_: ClaimRequest) -> int:
        return workers

    crowd = Crowd(clock, count)
    for _ in range(10 * IN_VAIN):
        crowd.told(hinted=True, found=False)
    return sum([await crowd.calls(ClaimRequest("w", "t"), here) for _ in range(1000)]) / 1000


async def test_lots_are_drawn_in_a_crowd_alone(clock: FakeClock) -> None:
    assert await drawn(clock, ANSWERS, 1) == 1.0
    assert await drawn(clock, 10 * ANSWERS, 1) == pytest.approx(0.1, abs=0.05)
    assert await drawn(clock, 10 * ANSWERS, 5) == pytest.approx(0.5, abs=0.1)  # five that are one to the store
    assert await drawn(clock, 10 * ANSWERS, 10) == 1.0


async def test_a_crowd_that_grows_is_counted_again_soon_and_one_that_stays_seldom(clock: FakeClock) -> None:
    """A thousand that are started together come one by one: the first of them would take themselves for few."""
    workers, counted = [1], list[float]()

    async def count(_: ClaimRequest) -> int:
        counted.append(clock.monotonic())
        return workers[0]

    crowd = Crowd(clock, count)
    assert await crowd.askers(ClaimRequest("w", "t"), 1) == 1
    workers[0] = 1000
    clock.advance(YOUNG)
    assert await crowd.askers(ClaimRequest("w", "t"), 1) == 1000
    for _ in range(3600):
        clock.advance(1)
        await crowd.askers(ClaimRequest("w", "t"), 1)
    gaps = [after - before for before, after in pairwise(counted)]
    assert max(gaps[:2]) <= 2 * YOUNG
    assert min(gaps[-5:]) >= (BELIEVED + 1000 * FOR_EACH) / 2
    assert await crowd.askers(ClaimRequest("w", "t"), 10) == 100  # ten that are one to the store


async def test_a_store_that_must_look_for_news_is_told_how_many_look(store: Counting, clock: FakeClock) -> None:
    crowd = await standing(store, clock, MANY)
    waited = store.waits
    clock.advance(POLL + YOUNG)
    await turns(1000)
    assert store.waits > waited
    assert store.rivals is not None
    assert await store.rivals() == MANY
    await end(crowd)


async def test_of_few_each_asks_at_once_though_it_has_lost_every_race(store: Counting, clock: FakeClock) -> None:
    crowd = await standing(store, clock, 1)
    late = Process("late", store, clock)
    await late.begin()
    await turns()
    broker = LocalBroker(store, clock, Config.of())
    await come(broker, clock, 10 * IN_VAIN)
    await end(crowd)  # as if they were busy
    before = late.ran
    for number in range(5):
        await come(broker, clock)
        assert late.ran == before + 1 + number  # without any time having passed since it came
    await end([late])


async def test_a_crowd_elsewhere_is_none(store: Counting, clock: FakeClock) -> None:
    """Those who work for other queues do not count."""
    crowd = await standing(store, clock, MANY)
    few = await standing(store, clock, 3, queue="rare")
    await end(crowd)
    for process in [Process(f"w{each}-0", store, clock, "common") for each in range(MANY)]:
        await process.begin()  # the same workers, for a queue of their own
        await process.end()
    broker = LocalBroker(store, clock, Config.of())
    for number in range(10 * IN_VAIN):
        await come(broker, clock, queue="rare")
        assert sum(process.ran for process in few) == number + 1
    await end(few)


async def test_workers_that_were_started_together_do_not_look_together(store: Counting, clock: FakeClock) -> None:
    crowd = await standing(store, clock, MANY)
    looks = list[int]()
    for _ in range(30):
        before = store.claims
        clock.advance(POLL / 10)
        await turns()
        looks.append(store.claims - before)
    assert sum(looks) == pytest.approx(3 * MANY, abs=MANY / 2)
    assert max(looks) < MANY / 3
    await end(crowd)


async def test_a_crowd_that_cannot_be_counted_is_none(
    store: Counting, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd = await standing(store, clock, MANY)

    async def away(prefix: str) -> list[Document]:
        raise StoreUnavailable(f"{prefix} cannot be read")

    monkeypatch.setattr(store, "documents", away)
    broker = LocalBroker(store, clock, Config.of())
    for number in range(3 * IN_VAIN):
        await come(broker, clock)
        assert sum(process.ran for process in crowd) == number + 1
    await end(crowd)


async def test_a_crowd_that_cannot_be_counted_any_more_is_as_large_as_it_was(clock: FakeClock) -> None:
    """Its server is away, and each of them would look for it as if it were alone."""
    away = False

    async def count(_: ClaimRequest) -> int:
        if away:
            raise StoreUnavailable("away")
        return 1000

    crowd = Crowd(clock, count)
    assert await crowd.askers(ClaimRequest("w", "t"), 1) == 1000
    away = True
    clock.advance(3600)
    assert await crowd.askers(ClaimRequest("w", "t"), 1) == 1000
