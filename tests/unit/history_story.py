"""A story to tell mistakes of: what happened to a few jobs, as clients saw it and as the log has it."""

from __future__ import annotations

from itertools import count
from typing import Any

from msgspec.structs import replace

from dibs.clock import FakeClock
from dibs.domain import transitions
from dibs.domain.audit import Item
from dibs.domain.job import ClaimRequest, Draft, Error, Event, Extension, Job, Keep, Terms
from dibs.domain.retry import SECOND, Backoff
from dibs.domain.transitions import Failure
from dibs.store import Store
from dibs.stores.memory import MemoryStore
from dibs.testing.history import Answer, History, Operation, Recorder, Report, check, read_audit, recorded

DAY = 86_400 * SECOND


def draft(id: str, *, keep: int = DAY, retry: Backoff | None = None, queue: str = "default", **options: Any) -> Draft:
    terms = Terms(retry=retry or Backoff(), lease_us=30 * SECOND)
    return Draft(id, queue, "task", b"{}", 0, options.pop("max_attempts", 3), terms, Keep(keep, keep, keep), **options)


class Story:
    """Clients of a memory store, recorded; and what can be changed about what they saw."""

    def __init__(self) -> None:
        ticks = count(1)
        self.clock = FakeClock()
        self.history = History(clock=lambda: next(ticks) * 10)
        self.store: Store = recorded(MemoryStore(self.clock), Recorder(self.history, "p1"))
        self.items: list[Item] = []
        self.options: dict[str, Any] = {}

    async def enqueue(self, *drafts: Draft) -> None:
        await self.store.insert([drafts])

    async def claim(self, id: str | None = None, worker: str = "w1", *, limit: int = 1) -> Job:
        [jobs] = await self.store.claim([ClaimRequest(worker, self.clock.token(), limit, id)])
        return jobs[0]

    async def complete(self, job: Job) -> None:
        await self.store.write([transitions.complete(job.ref)])

    async def fail(self, job: Job, *, retryable: bool = True, delay_us: int | None = None) -> None:
        failure = Failure(Error("it broke"), retryable, delay_us)
        await self.store.write([transitions.fail(job, job.ref, failure, self.clock.random)])

    async def extend(self, job: Job) -> None:
        """Extend as a client does that is told the new end of its lease."""
        await self.store.extend([Extension(job.ref)])
        [now] = await self.store.get([job.id])
        assert now is not None
        self.history.operations[-1].result = {"lease_expires_us": now.lease_expires_us}

    async def end(self) -> Story:
        await self.store.counts()
        self.items = await read_audit(self.store)
        return self

    # What the planted mistakes change

    def check(self) -> Report:
        return check(self.history, self.items, **self.options)

    def operation(self, kind: str, id: str, nth: int = 0) -> Operation:
        found = [operation for operation in self.history.operations if operation.kind == kind and about(operation, id)]
        return found[nth]

    def events(self, id: str) -> list[Event]:
        return next(events for _, events in self.items if events[0].job_id == id)

    def change(self, id: str, index: int, **changes: Any) -> None:
        events = self.events(id)
        events[index] = replace(events[index], **changes)

    def row(self, id: str, **changes: Any) -> None:
        self.items = [
            (replace(job, **changes) if job is not None and job.id == id else job, events) for job, events in self.items
        ]

    def remove(self, id: str) -> None:
        self.items = [item for item in self.items if item[1][0].job_id != id]

    def forget(self, operation: Operation) -> None:
        self.history.operations.remove(operation)

    def lose_reply(self, operation: Operation) -> None:
        operation.answer, operation.returned, operation.result = Answer.UNKNOWN, None, None

    def at(self, operation: Operation, invoked: int, returned: int) -> None:
        operation.invoked, operation.returned = invoked, returned


def about(operation: Operation, id: str) -> bool:
    told = operation.result if isinstance(operation.result, list) else []
    asked = operation.arguments.get("jobs", [])
    return operation.arguments.get("id") == id or any(job["id"] == id for job in (*told, *asked))


async def told() -> Story:
    """Something of everything."""
    story = Story()
    await story.enqueue(draft("a", idempotency_key="ka"), draft("b", unique_key="ub"))
    await story.enqueue(draft("a", idempotency_key="ka"))  # a duplicate
    await story.enqueue(draft("a2", idempotency_key="ka"))  # found by its key
    await story.enqueue(draft("c", delay_us=5 * SECOND), draft("d"), draft("e"), draft("f"), draft("gone"))

    a = await story.claim("a")
    story.clock.advance(1)
    await story.extend(a)
    story.clock.advance(1)
    await story.extend(a)
    await story.complete(a)
    await story.complete(a)  # repeated

    b = await story.claim("b")
    await story.fail(b, delay_us=3 * SECOND)
    story.clock.advance(5)
    b = await story.claim("b", "w2")
    await story.complete(b)

    c = await story.claim("c")
    story.clock.advance(40)
    await story.store.write([transitions.expire(job, story.clock.random) for job in await story.store.expired(9)])
    await story.complete(c)  # lost
    story.clock.advance(9)
    c2 = await story.claim("c", "w2")
    await story.fail(c2, retryable=False)
    await story.store.write([transitions.redrive("c", "admin")])
    await story.complete(await story.claim("c", "w3"))

    d = await story.claim("d")
    await story.store.write([transitions.release(d.ref)])
    await story.complete(await story.claim("d", "w2"))

    await story.claim("e")
    await story.store.write([transitions.cancel("e", "admin")])
    await story.complete(await story.claim("f"))
    await story.complete(await story.claim("gone"))
    await story.store.write([transitions.purge("gone", "admin")])
    return await story.end()
