"""Those who wait for the same look together, and believe what one of them has seen for no longer than it is true."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from dibs.clock import Clock, FakeClock
from dibs.domain.errors import StoreUnavailable
from dibs.domain.job import NEVER
from dibs.stores.common.waiting import Pace, Waiting
from dibs.testing.conformance.builders import one

Peek = Callable[[frozenset[str] | None], Awaitable[tuple[int, int]]]


class Looks:
    """What a look finds, once it is let through; each is counted."""

    def __init__(self) -> None:
        self.queues: list[set[str] | None] = []
        self.through = asyncio.Event()
        self.found: tuple[int, int] | Exception = (NEVER, 0)

    @property
    def number(self) -> int:
        return len(self.queues)

    async def __call__(self, queues: frozenset[str] | None) -> tuple[int, int]:
        self.queues.append(None if queues is None else set(queues))
        await self.through.wait()
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


@pytest.fixture
def looks() -> Looks:
    return Looks()


def waits(waiting: Waiting, peek: Peek, trust: float = 60.0) -> asyncio.Task[frozenset[str] | None]:
    async def pace() -> Pace:
        return Pace(trust, 60.0)

    return asyncio.create_task(waiting.wait(one(), 60.0, peek, pace))


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_those_who_wait_for_the_same_look_once(looks: Looks) -> None:
    waiting = Waiting(FakeClock())
    tasks = [waits(waiting, looks) for _ in range(10)]
    await turns()
    looks.through.set()
    await turns()

    assert (looks.number, [task.done() for task in tasks]) == (1, [False] * 10)
    waiting.tell(None)
    await asyncio.gather(*tasks)
    assert looks.number == 1


async def test_a_look_of_one_who_claimed_in_vain_is_believed_until_there_is_news(looks: Looks) -> None:
    waiting = Waiting(FakeClock())
    looks.through.set()
    assert await waiting.look(one(), looks) == (NEVER, 0)

    first = waits(waiting, looks)
    await turns()
    assert looks.number == 1
    waiting.tell([("mail", "task")])
    assert await first == frozenset({"mail"})
    looks.found = (5, 10)
    assert await waits(waiting, looks) is None
    assert looks.queues == [None, {"mail"}]


async def test_after_news_there_is_what_was_due_before_too(looks: Looks) -> None:
    clock = FakeClock()
    waiting = Waiting(clock)
    looks.through.set()
    looks.found = (3_000_000, 0)
    await waiting.look(one(), looks)
    waiting.tell([("mail", "task")])
    looks.found = (NEVER, 1_000)
    task = waits(waiting, looks)
    await turns()
    clock.advance(2.9)
    await turns()
    assert (task.done(), looks.queues) == (False, [None, {"mail"}])
    looks.found = (5, 10)
    clock.advance(0.2)
    await asyncio.wait_for(task, 5)


async def test_news_of_very_many_queues_are_looked_for_in_all(looks: Looks) -> None:
    """They are not gathered without end either."""
    waiting = Waiting(FakeClock())
    looks.through.set()
    await waiting.look(one(), looks)
    for number in range(1000):
        waiting.tell([(f"user-{number}", "task")])
    looks.found = (5, 10)
    await asyncio.wait_for(waits(waiting, looks), 5)
    assert looks.queues == [None, None]


async def test_whoever_is_woken_hears_of_all_news(looks: Looks) -> None:
    waiting = Waiting(FakeClock())
    looks.through.set()
    few, all_ = waits(waiting, looks), waits(waiting, looks)
    await turns()
    waiting.tell([("mail", "a"), ("mail", "b")])
    waiting.tell([("default", "a")])
    assert await few == frozenset({"mail", "default"})
    few = waits(waiting, looks)
    await turns()
    waiting.tell([("mail", "a")])
    waiting.tell(None)
    assert await few is None
    assert await all_ == frozenset({"mail", "default"})


async def test_news_during_a_look_are_looked_for_after_it(looks: Looks) -> None:
    waiting = Waiting(FakeClock())
    looking = asyncio.create_task(waiting.look(one(), looks))
    await turns()
    waiting.tell([("mail", "task")])
    looks.through.set()
    await looking
    looks.found = (5, 10)
    await asyncio.wait_for(waits(waiting, looks), 5)
    assert looks.queues == [None, {"mail"}]


async def test_who_relies_on_a_look_that_is_on_its_way_hears_what_it_found(looks: Looks) -> None:
    """Whoever looks may take one job, and leave others."""
    waiting = Waiting(FakeClock())
    looking = asyncio.create_task(waiting.look(one(), looks))
    await turns()
    relying = waits(waiting, looks)
    await turns()
    assert looks.number == 1

    looks.found = (5, 10)
    looks.through.set()
    await looking
    await asyncio.wait_for(relying, 5)
    assert looks.number == 2


async def test_a_look_that_failed_is_not_believed(looks: Looks) -> None:
    waiting = Waiting(FakeClock())
    looks.found = StoreUnavailable("it is away")
    looks.through.set()
    with pytest.raises(StoreUnavailable):
        await waiting.look(one(), looks)

    looks.found = (5, 10)
    await asyncio.wait_for(waits(waiting, looks), 5)
    assert looks.number == 2


async def test_who_trusts_nothing_does_not_look_without_end(looks: Looks) -> None:
    waiting = Waiting(Clock())
    looks.through.set()
    tasks = [waits(waiting, looks, trust=0.0) for _ in range(3)]
    await asyncio.sleep(0.1)

    assert looks.number == 3
    waiting.tell(None)
    await asyncio.gather(*tasks)
