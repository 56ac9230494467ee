"""Any store, step by step beside the memory store: the same calls at the same times must have the same answers.

Hypothesis makes up the calls, and boils a difference down to the fewest that show it.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from msgspec.structs import replace

from dibs.clock import FakeClock
from dibs.domain import transitions
from dibs.domain.job import ClaimRequest, Draft, Error, Extension, Job, Query, Ref
from dibs.domain.retry import SECOND
from dibs.domain.transitions import Failure, Write
from dibs.store import PAUSED, Refusal, Store
from dibs.stores.memory import MemoryStore
from dibs.testing.conformance.strategies import QUEUES, TIMES, groups, queries, requests, several_new, some

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

T = TypeVar("T")

VERBS = ["complete", "fail", "retry", "release", "later", "expire"]


class StoreMachine(RuleBasedStateMachine):
    """One store and its oracle, each with a clock of its own that is moved in step."""

    def __init__(self, make_store: Callable[[FakeClock], Store], *, one_order: bool) -> None:
        super().__init__()
        self.one_order = one_order
        self.loop = asyncio.new_event_loop()
        self.clocks = FakeClock(), FakeClock()
        self.stores: tuple[Store, Store] = (make_store(self.clocks[0]), MemoryStore(self.clocks[1]))
        self.random = Random(0)
        self.claims: list[Job] = []
        self.ids: set[str] = set()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run on the machine's own event loop."""
        return self.loop.run_until_complete(coroutine)

    def both(self, call: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
        """Make the same call to both, and see that the answers are the same."""
        answer, expected = (self.run(call(store)) for store in self.stores)
        assert answer == expected
        return answer

    def teardown(self) -> None:
        """See that all is the same in the end."""
        try:
            self.everything()
        finally:
            for store in self.stores:
                self.run(store.close())
            self.loop.close()

    @initialize(drafts=several_new)
    def open(self, drafts: list[Draft]) -> None:
        """Begin with the same few jobs in both."""
        for store in self.stores:
            self.run(store.open())
        self.insert([[draft] for draft in drafts])

    # The life of jobs

    @rule(groups=groups)
    def insert(self, groups: list[list[Draft]]) -> None:
        """Enqueue, with ids and keys that collide."""
        for answer in self.both(lambda store: store.insert(groups)):
            if not isinstance(answer, Refusal):
                self.ids |= {job.id for job in answer}

    @rule(requests=st.lists(requests, min_size=1, max_size=3))
    def claim(self, requests: list[ClaimRequest]) -> None:
        """Claim with one request, or with several at once."""
        requests = [replace(request, token=f"token-{self.random.random()}") for request in requests]
        claim = self.both(lambda store: store.claim(requests)) if self.one_order else self._claim_any(requests)
        for jobs in claim:
            self.claims += jobs
        del self.claims[:-10]

    def _claim_any(self, requests: list[ClaimRequest]) -> list[list[Job]]:
        """Claim in no one order: the oracle must be able to claim the same jobs for the same requests, and no more."""
        answers = self.run(self.stores[0].claim(requests))
        for request, jobs in zip(requests, answers, strict=True):
            assert len(jobs) <= request.limit
            same = [self.run(self.stores[1].claim([replace(request, id=job.id, limit=1)])) for job in jobs]
            assert [[[job]] for job in jobs] == same
            if len(jobs) < request.limit:
                assert self.run(self.stores[1].claim([request])) == [[]]
        return answers

    @rule(data=st.data(), request=requests)
    def claim_by_id(self, data: st.DataObject, request: ClaimRequest) -> None:
        """Claim one job by its name."""
        self.claim([replace(request, id=data.draw(some(sorted(self.ids))))])

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), progress=some([None, 0.5]))
    def extend(self, data: st.DataObject, progress: float | None) -> None:
        """Extend claims, old ones and wrong ones too."""
        refs = [job.ref for job in data.draw(self._some_claims())]
        refs.append(Ref(refs[0].id, refs[0].fence, "wrong"))
        self.both(lambda store: store.extend([Extension(ref, progress, "note") for ref in refs]))

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), verbs=st.lists(some(VERBS), min_size=3, max_size=3))
    def settle(self, data: st.DataObject, verbs: list[str]) -> None:
        """Settle claims, old ones too, or take them away."""
        jobs = data.draw(self._some_claims())
        self._write([self._settlement(verb, job) for verb, job in zip(verbs, jobs, strict=False)])

    def _some_claims(self) -> st.SearchStrategy[list[Job]]:
        # the newest first, for it is the likeliest to be current
        return st.lists(some(self.claims[::-1]), min_size=1, max_size=3)

    def _settlement(self, verb: str, job: Job) -> Write:
        error = Error("broken", "ValueError")
        match verb:
            case "complete":
                return transitions.complete(job.ref, b"1")
            case "fail":
                return transitions.fail(job, job.ref, Failure(error, retryable=False), self.random)
            case "retry":
                delay_us = self.random.choice([None, *TIMES])
                return transitions.fail(job, job.ref, Failure(error, delay_us=delay_us), self.random)
            case "expire":
                return transitions.expire(job, self.random)
            case _:
                return transitions.release(job.ref, None if verb == "release" else self.random.choice(TIMES))

    @rule(data=st.data(), verb=some(["cancel", "redrive", "redrive", "purge"]))
    def operate(self, data: st.DataObject, verb: str) -> None:
        """Cancel, redrive and purge, whatever state they are in."""
        ids = data.draw(st.lists(some(sorted(self.ids)), min_size=1, max_size=4))
        decide = {"cancel": transitions.cancel, "redrive": transitions.redrive, "purge": transitions.purge}[verb]
        writes = [decide(id, "operator") for id in ids]
        for together in [writes] if self.one_order else [[write] for write in writes]:
            self._write(together)

    @rule(limit=some([100, 1]), seconds=some([0, 2, 10]))
    def reap(self, limit: int, seconds: float) -> None:
        """Take away the claims whose leases ran out."""
        self.advance(seconds)

        async def expired(store: Store) -> list[Job]:  # of those that ran out at the same time, any may come first
            return sorted(await store.expired(100), key=lambda job: (job.lease_expires_us, job.id))

        jobs = self.both(expired)[:limit]
        self._write([transitions.expire(job, self.random) for job in jobs])

    def _write(self, writes: list[Write]) -> None:
        self.both(lambda store: store.write(writes))

    @rule(limit=some([100, 1]), seconds=some([0, 5, 60, 90_000]))
    def prune(self, limit: int, seconds: float) -> None:
        """Remove what is over, at once or one by one."""
        self.advance(seconds)

        async def prune(store: Store) -> list[int]:
            return [number async for number in _until_zero(store, limit)]

        self.both(prune)

    # Time and documents

    @rule(seconds=some([1e-6, 0.5, 1, 2, 10, 60, -5]))
    def advance(self, seconds: float) -> None:
        """Let time pass, or set the clock back, unless there are several."""
        if seconds < 0 and not self.one_order:
            return
        for clock in self.clocks:
            clock.advance(seconds)
        self.both(lambda store: store.now())

    @rule(queue=some(QUEUES), value=some([b"{}", None, None]), keep_us=some([None, 10 * SECOND]))
    def pause_or_resume(self, queue: str, value: bytes | None, keep_us: int | None) -> None:
        """Let a queue hand out nothing, or go on."""
        self._put(PAUSED + queue, value, keep_us)

    @rule(value=some([b"1", b"2", None]), keep_us=some([None, SECOND]), seen=some([None, 0, 1]))
    def put(self, value: bytes | None, keep_us: int | None, seen: int | None) -> None:
        """Write a document: in any case, if it is not there, or if it is as it was just seen."""
        self._put("document", value, keep_us, seen)

    def _put(self, name: str, value: bytes | None, keep_us: int | None, seen: int | None = None) -> None:
        async def put(store: Store) -> Any:
            found = [document.version for document in await store.documents(name)]
            expect = (*found, 7)[0] if seen else seen
            document = await store.put(name, value, expect=expect, keep_us=keep_us)
            return document and replace(document, version=min(document.version, 1))  # how it counts is its own affair

        self.both(put)

    # Reading

    @rule(query=queries)
    def look(self, query: Query) -> None:
        """Find, count, and compare all jobs and their logs."""
        self.find(query)
        self.count()
        self.everything()

    def find(self, query: Query) -> None:
        """Go through all pages; the cursors are each store's own."""

        async def pages(store: Store) -> list[list[Job]]:
            found, cursor = [], None
            while True:
                jobs, cursor = await store.find(replace(query, cursor=cursor))
                found.append(jobs)
                if cursor is None:
                    return found

        async def sizes_and_jobs(store: Store) -> tuple[list[int], list[Job]]:
            found = await pages(store)
            return [len(page) for page in found], sorted(
                (job for page in found for job in page), key=lambda job: job.id
            )

        if self.one_order:
            self.both(pages)
        else:
            self.both(sizes_and_jobs)

    def count(self) -> None:
        """Count, in all and by queue."""
        self.both(lambda store: store.queues())
        for queue in (None, *QUEUES):
            self.both(lambda store, queue=queue: store.counts(queue))  # type: ignore[misc]  # the default binds it

    def everything(self) -> None:
        """Compare all jobs and all logs."""
        ids = sorted(self.ids)
        self.both(lambda store: store.get(ids))
        for id in ids:
            self.both(lambda store, id=id: store.log(id))  # type: ignore[misc]  # the default binds it
        self.both(self._audit)

    @staticmethod
    async def _audit(store: Store) -> dict[str, Any]:
        found: dict[str, Any] = {}
        cursor = None
        while True:
            audit = await store.audit(cursor, 3)
            found |= {events[-1].job_id: (job, events) for job, events in audit.items}
            cursor = audit.cursor
            if cursor is None:
                return found


async def _until_zero(store: Store, limit: int) -> AsyncIterator[int]:
    while number := await store.prune(limit):
        yield number


def state_machine(
    make_store: Callable[[FakeClock], Store], *, examples: int = 100, steps: int = 50, one_order: bool = True
) -> type[StoreMachine]:
    """Make the machine for a store; ``make_store`` is called once for each example, and must make a new, empty one.

    A store whose jobs are in several places, each with a clock of its own, has not ``one_order`` of them.
    Run it with ``hypothesis.stateful.run_state_machine_as_test``, or take its ``TestCase``.
    """

    class Machine(StoreMachine):
        def __init__(self) -> None:
            super().__init__(make_store, one_order=one_order)

    Machine.TestCase.settings = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    return Machine
