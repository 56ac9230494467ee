"""Whatever clients do to the memory store is clean."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dibs.clock import FakeClock
from dibs.domain import transitions
from dibs.domain.job import ClaimRequest, Error, Extension, Job
from dibs.domain.retry import SECOND
from dibs.domain.transitions import Failure
from dibs.store import PAUSED
from dibs.stores.memory import MemoryStore
from dibs.testing.history import Answer, History, Recorder, check, read_audit, recorded
from tests.unit.history_story import DAY, Story, draft


def test_threads_at_once_are_clean() -> None:
    clock, history = FakeClock(), History()
    store = MemoryStore(clock)

    async def work(name: str) -> None:
        mine = recorded(store, Recorder(history, name))
        for number in range(30):
            await mine.insert([[draft(f"{name}-{number}", unique_key=str(number % 3)), draft(f"{name}+{number}")]])
            [jobs] = await mine.claim([ClaimRequest(name, clock.token(), 3)])
            await mine.write([transitions.complete(job.ref) for job in jobs if number % 5])
            await mine.write([transitions.release(job.ref) for job in jobs])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: asyncio.run(work(name)), [f"w{number}" for number in range(8)]))
    report = check(history, asyncio.run(read_audit(store)), final=False)
    assert report.ok, report
    assert report.operations > 1000


class Crowd:
    """Clients that do anything, of whom some never hear back."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.story = Story()
        self.held: list[Job] = []
        self.ids = count()
        self.known: list[str] = []

    async def step(self, action: int, lost: bool) -> None:
        actions: list[Callable[[], Awaitable[None]]] = [
            *[self.enqueue] * 2,
            *[self.claim] * 2,
            *[self.settle] * 3,
            self.extend,
            self.operate,
            self.reap,
            self.pass_time,
            self.pause,
        ]
        before = len(self.story.history)
        await actions[action % len(actions)]()
        for operation in self.story.history.operations[before:]:
            if lost and operation.answer is Answer.OK:
                self.story.lose_reply(operation)

    async def enqueue(self) -> None:
        drafts = []
        for _ in range(self.random.randint(1, 3)):
            id = f"j{next(self.ids)}"
            keys: dict[str, Any] = {}
            if self.random.random() < 0.3:
                keys["idempotency_key"] = self.random.choice("kl")
            if self.random.random() < 0.3:
                keys["unique_key"] = self.random.choice("uv")
            delay_us = self.random.choice([0, 0, 0, 2 * SECOND])
            queue = self.random.choice(["default", "mail"])
            keep = self.random.choice([0, 60 * SECOND, DAY])
            drafts.append(draft(id, keep=keep, queue=queue, delay_us=delay_us, max_attempts=2, **keys))
        await self.story.store.insert([drafts])
        self.known += [each.id for each in drafts]

    async def claim(self) -> None:
        requests = [
            ClaimRequest(self.random.choice(["w1", "w2"]), self.story.clock.token(), self.random.randint(1, 3))
            for _ in range(self.random.randint(1, 2))
        ]
        for jobs in await self.story.store.claim(requests):
            self.held += jobs

    async def settle(self) -> None:
        if not self.held:
            return
        job = self.random.choice(self.held)  # also one that was settled, or is no longer held
        failure = Failure(Error("broke"), self.random.random() < 0.8, self.random.choice([None, 0, SECOND]))
        write = self.random.choice(
            [
                transitions.complete(job.ref),
                transitions.fail(job, job.ref, failure, self.story.clock.random),
                transitions.release(job.ref, self.random.choice([None, SECOND])),
            ]
        )
        await self.story.store.write([write])

    async def extend(self) -> None:
        if self.held:
            await self.story.store.extend([Extension(self.random.choice(self.held).ref)])

    async def operate(self) -> None:
        if self.known:
            id = self.random.choice(self.known)
            write = self.random.choice(
                [transitions.cancel, transitions.redrive, transitions.redrive, transitions.purge]
            )
            await self.story.store.write([write(id, "admin")])

    async def reap(self) -> None:
        expired = await self.story.store.expired(10)
        await self.story.store.write([transitions.expire(job, self.story.clock.random) for job in expired])
        await self.story.store.prune(10)

    async def pass_time(self) -> None:
        self.story.clock.advance(self.random.choice([0.5, 3, 20, 31]))

    async def pause(self) -> None:
        await self.story.store.put(PAUSED + "mail", self.random.choice([None, b"{}"]))

    def stretch(self) -> None:
        """Let each call have been asked a little earlier, and answered a little later, than it was."""
        for operation in self.story.history.operations:
            operation.invoked -= self.random.choice([0, 0, 15, 60])
            if operation.returned is not None and operation.kind != "counts":
                operation.returned += self.random.choice([0, 0, 15, 60])
        self.story.history = History.merge(self.story.history)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 11), st.booleans()), max_size=60), st.integers(0, 2**16), st.booleans())
def test_whatever_happens_is_clean(steps: list[tuple[int, bool]], seed: int, stretched: bool) -> None:
    async def run() -> Crowd:
        crowd = Crowd(seed)
        for action, lost in steps:
            await crowd.step(action, lost and crowd.random.random() < 0.3)
        await crowd.story.end()
        return crowd

    crowd = asyncio.run(run())
    if stretched:
        crowd.stretch()
    report = check(crowd.story.history, crowd.story.items, final=False)
    assert report.ok, report
