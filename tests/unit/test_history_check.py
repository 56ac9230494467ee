"""The history checker: what really happened passes, and each planted mistake is named by its promise."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dibs.clock import FakeClock
from dibs.domain import transitions
from dibs.domain.audit import Item
from dibs.domain.job import ClaimRequest, Draft, Error, Event, EventName, Extension, Job, Keep, Status, Terms
from dibs.domain.retry import SECOND, Backoff
from dibs.domain.transitions import Failure
from dibs.store import PAUSED, Store
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


@pytest.fixture
def story() -> Story:
    return asyncio.run(told())


def test_what_happened_is_clean(story: Story) -> None:
    report = story.check()
    assert report.ok, report
    assert (report.jobs, report.pruned, report.unknown) == (6, 1, 0)
    assert str(report).endswith("every promise kept")


# Planted mistakes: in the log, in what clients saw, or in both


def two_holders(story: Story) -> None:
    """The second claim of d was answered before the first was given back."""
    release = story.operation("release", "d")
    first, second = story.operation("claim", "d"), story.operation("claim", "d", 1)
    assert first.returned is not None
    story.at(second, first.returned + 1, first.returned + 2)
    story.at(release, first.returned + 3, first.returned + 4)
    later = story.operation("complete", "d")
    story.at(later, first.returned + 5, first.returned + 6)


def two_holders_in_the_log(story: Story) -> None:
    events = story.events("d")
    del events[2]
    events[2:] = [replace(event, seq=event.seq - 1) for event in events[2:]]
    story.row("d", events=len(events))
    story.forget(story.operation("release", "d"))


def fence_handed_out_twice(story: Story) -> None:
    story.operation("claim", "d", 1).result[0]["fence"] = 1


def fence_runs_backwards(story: Story) -> None:
    """b's claims are answered in the wrong order; how the first of them ended is not known."""
    first, second = story.operation("claim", "b"), story.operation("claim", "b", 1)
    assert first.returned is not None
    assert second.returned is not None
    times = first.invoked, first.returned
    story.at(first, second.invoked, second.returned)
    story.at(second, *times)
    story.forget(story.operation("fail", "b"))
    story.options["complete"] = False


def stale_settle_applied(story: Story) -> None:
    story.operation("complete", "c").result = "applied"


def stale_settle_in_the_log(story: Story) -> None:
    story.change("c", 4, fence=1)


def settle_applied_but_not_logged(story: Story) -> None:
    story.operation("release", "d").kind = "complete"


def settled_twice(story: Story) -> None:
    story.operation("complete", "a", 1).result = "applied"


def settle_told_lost_but_logged(story: Story) -> None:
    story.operation("complete", "f").result = "lost"


def settle_told_lease_lost_but_logged(story: Story) -> None:
    operation = story.operation("complete", "f")
    operation.answer, operation.result = Answer.REFUSED, "lease_lost"


def settled_by_no_one(story: Story) -> None:
    story.forget(story.operation("complete", "f"))


def stale_extend_applied(story: Story) -> None:
    late = story.history.operations[-1].invoked - 1
    story.at(story.operation("extend", "a"), late, late)


def extend_of_no_claim(story: Story) -> None:
    story.operation("extend", "a").arguments["fence"] = 7


def extend_before_the_claim(story: Story) -> None:
    story.at(story.operation("extend", "a"), 1, 2)


def lost_job(story: Story) -> None:
    story.remove("f")


def lost_tombstone(story: Story) -> None:
    story.remove("gone")


def gone_without_a_prune(story: Story) -> None:
    story.items = [(None if events[0].job_id == "f" else job, events) for job, events in story.items]


def phantom_job(story: Story) -> None:
    job = draft("phantom").job(story.clock.now())
    event = transitions.log(None, job, EventName.ENQUEUED, story.clock.now())
    story.items.append((job, [event]))
    story.options["final"] = False
    story.forget(story.history.operations[-1])  # the counts would be wrong, too


def half_acknowledged(story: Story) -> None:
    story.operation("enqueue", "f").result.pop()
    story.options["complete"] = False


def claimed_before_it_was_enqueued(story: Story) -> None:
    story.at(story.operation("claim", "f"), 1, 2)


def never_ended(story: Story) -> None:
    events = story.events("f")
    del events[2]
    claimed = events[1]
    story.row("f", status=Status.CLAIMED, events=2, attempts=0, lease_expires_us=claimed.lease_expires_us)
    story.forget(story.operation("complete", "f"))
    story.forget(story.history.operations[-1])


def never_taken(story: Story) -> None:
    del story.events("f")[1:]
    story.row("f", status=Status.PENDING, events=1, attempts=0, fence=0, worker_id=None)
    for operation in (story.operation("claim", "f"), story.operation("complete", "f"), story.history.operations[-1]):
        story.forget(operation)


def too_many_attempts(story: Story) -> None:
    story.row("b", max_attempts=1)


def illegal_transition(story: Story) -> None:
    story.change("f", 2, to=Status.PENDING)


def cancelled_by_no_one(story: Story) -> None:
    story.forget(story.operation("cancel", "e"))


def claimed_before_due(story: Story) -> None:
    story.change("c", 1, at_us=story.events("c")[0].due_us - 1)


def key_of_two_jobs(story: Story) -> None:
    """The enqueue that was found by its key is told that it made a job of its own."""
    made = next(job for job in story.operation("enqueue", "f").result if job["id"] == "f")
    made["duplicate"] = True
    story.operation("enqueue", "a2").result = [{"id": "f"}]


def key_of_two_jobs_in_the_log(story: Story) -> None:
    story.row("f", idempotency_key="ka")


def unique_key_of_two_jobs(story: Story) -> None:
    story.row("d", unique_key="ub")


def made_twice(story: Story) -> None:
    story.operation("enqueue", "a", 1).result[0]["duplicate"] = False


def one_id_two_rows(story: Story) -> None:
    story.items.append(story.items[-2])


def leased_but_not_returned(story: Story) -> None:
    story.operation("claim", "e").result = []


def returned_but_not_leased(story: Story) -> None:
    story.operation("claim", "e").result.append({"id": "f", "fence": 2})
    story.operation("claim", "e").arguments["limit"] = 2


def returned_to_another(story: Story) -> None:
    story.operation("claim", "f").arguments["worker_id"] = "w9"


def more_than_the_limit(story: Story) -> None:
    story.operation("claim", "f").arguments["limit"] = 0


def pruned_under_an_earlier_fence(story: Story) -> None:
    story.operation("claim", "gone").result[0]["fence"] = 5


def lease_shortened(story: Story) -> None:
    first, second = story.operation("extend", "a"), story.operation("extend", "a", 1)
    first.result, second.result = second.result, first.result


def lease_shortened_in_the_log(story: Story) -> None:
    story.operation("extend", "a", 1).result["lease_expires_us"] += 1


def event_dropped(story: Story) -> None:
    del story.events("b")[2]


def row_differs(story: Story) -> None:
    story.row("b", attempts=0)


def redrive_not_logged(story: Story) -> None:
    operation = story.history.invoke("redrive", "p1", {"id": "f"})
    story.history.finish(operation, Answer.OK, "applied")


def wrong_count(story: Story) -> None:
    story.history.operations[-1].result["completed"] += 2  # one may have been pruned since


def count_called_inexact(story: Story) -> None:
    story.history.operations[-1].result["exact"] = False


def backoff_out_of_range(story: Story) -> None:
    event = story.events("c")[2]
    story.change("c", 2, due_us=event.at_us + 1 * SECOND + 1)


def delay_not_obeyed(story: Story) -> None:
    story.operation("fail", "b").arguments["delay_us"] = 1


MISTAKES: dict[str, tuple[int, Callable[[Story], None]]] = {
    "two holders": (1, two_holders),
    "two holders in the log": (1, two_holders_in_the_log),
    "a fence is handed out twice": (2, fence_handed_out_twice),
    "fences run backwards": (2, fence_runs_backwards),
    "a stale settle is applied": (3, stale_settle_applied),
    "a stale settle is in the log": (3, stale_settle_in_the_log),
    "a settle is applied but not logged": (3, settle_applied_but_not_logged),
    "a claim is settled twice": (3, settled_twice),
    "a settle is told lost but logged": (3, settle_told_lost_but_logged),
    "a settle is told lease_lost but logged": (3, settle_told_lease_lost_but_logged),
    "a claim is settled by no one": (3, settled_by_no_one),
    "a stale extend is applied": (3, stale_extend_applied),
    "an extend of no claim is applied": (3, extend_of_no_claim),
    "an extend is applied before the claim": (3, extend_before_the_claim),
    "a job is lost": (4, lost_job),
    "a pruned job leaves no trace": (4, lost_tombstone),
    "a job is gone but was not pruned": (4, gone_without_a_prune),
    "a phantom job": (4, phantom_job),
    "half a batch is acknowledged": (4, half_acknowledged),
    "a job is claimed before it is enqueued": (4, claimed_before_it_was_enqueued),
    "a claim is never ended": (5, never_ended),
    "a due job is never taken": (5, never_taken),
    "too many attempts": (6, too_many_attempts),
    "an illegal transition": (7, illegal_transition),
    "a cancellation that no one asked for": (7, cancelled_by_no_one),
    "claimed before due": (8, claimed_before_due),
    "one idempotency key, two jobs": (9, key_of_two_jobs),
    "one idempotency key, two jobs in the log": (9, key_of_two_jobs_in_the_log),
    "one unique key, two unfinished jobs": (9, unique_key_of_two_jobs),
    "one id made twice": (9, made_twice),
    "one id, two rows": (9, one_id_two_rows),
    "leased but not returned": (10, leased_but_not_returned),
    "returned but not leased": (10, returned_but_not_leased),
    "returned to another": (10, returned_to_another),
    "more than the limit": (10, more_than_the_limit),
    "pruned under an earlier fence": (10, pruned_under_an_earlier_fence),
    "a lease is shortened": (11, lease_shortened),
    "a lease is shorter in the log": (11, lease_shortened_in_the_log),
    "an event is dropped": (12, event_dropped),
    "the row differs from its log": (12, row_differs),
    "a redrive is not logged": (12, redrive_not_logged),
    "a wrong count": (13, wrong_count),
    "a small count called inexact": (13, count_called_inexact),
    "a back-off out of range": (15, backoff_out_of_range),
    "an asked-for delay is not obeyed": (15, delay_not_obeyed),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake: str, story: Story) -> None:
    promise, plant = MISTAKES[mistake]
    plant(story)

    report = story.check()

    assert report.violations[0].promise == promise, report
    assert {violation.promise for violation in report.violations} == {promise}, report
    assert f"promise {promise} (" in str(report)


# What is not known is allowed


@pytest.mark.parametrize(
    ("kind", "id"),
    [
        ("enqueue", "f"),
        ("claim", "f"),
        ("claim", "gone"),
        ("complete", "f"),
        ("fail", "c"),
        ("cancel", "e"),
        ("extend", "a"),
    ],
)
def test_a_lost_reply_may_have_been_anything(kind: str, id: str, story: Story) -> None:
    story.lose_reply(story.operation(kind, id))
    report = story.check()
    assert report.ok, report
    assert report.unknown == 1


def test_a_lost_claim_accounts_for_no_more_than_its_limit(story: Story) -> None:
    story.lose_reply(story.operation("claim", "e"))
    story.operation("claim", "f").result = []
    assert [violation.promise for violation in story.check().violations] == [10]
    story.history.invoke("claim", "p2", {"worker_id": "w2", "limit": 9})  # another worker's
    assert [violation.promise for violation in story.check().violations] == [10]
    story.history.invoke("claim", "p2", {})  # anyone's
    assert story.check().ok


def test_two_lost_settles_of_which_either_was_the_one(story: Story) -> None:
    first = story.operation("fail", "b")
    story.lose_reply(first)
    story.history.invoke("fail", "p2", {**first.arguments, "delay_us": 7})
    assert story.check().ok


def test_a_lost_enqueue_without_an_id_accounts_for_any_job(story: Story) -> None:
    phantom_job(story)
    operation = story.history.invoke("enqueue", "p2", {"task": "task"})
    assert operation.returned is None
    assert story.check().ok
    assert [violation.promise for violation in check(History(), story.items, final=False).violations] == [4] * 8


def test_clients_that_were_not_recorded_are_allowed_for_on_request(story: Story) -> None:
    report = check(History(), story.items, complete=False)
    assert report.ok, report


def test_a_claim_that_was_given_up_is_released_by_no_one(story: Story) -> None:
    story.lose_reply(story.operation("claim", "d"))
    story.forget(story.operation("release", "d"))
    assert story.check().ok


def test_a_settle_that_was_sent_again_by_itself_is_told_repeated(story: Story) -> None:
    story.operation("complete", "f").result = "repeated"
    assert story.check().ok


def test_an_order_by_filter_accounts_for_any_job(story: Story) -> None:
    story.forget(story.operation("redrive", "c"))
    story.history.invoke("redrive", "p1", {"where": {"status": "failed"}})
    assert story.check().ok


def test_overlapping_calls_may_have_happened_in_either_order(story: Story) -> None:
    for operation in story.history.operations[:-1]:
        story.at(operation, 1, 10**6)
    assert story.check().ok


def test_jobs_that_wait_are_not_stuck() -> None:
    async def run() -> Story:
        story = Story()
        await story.enqueue(
            draft("held", delay_us=None), draft("later", delay_us=60 * SECOND), draft("p", queue="paused")
        )
        await story.store.put(PAUSED + "paused", b"{}")
        return await story.end()

    story = asyncio.run(run())
    assert story.check().ok
    story.options["now_us"] = story.clock.now() + 60 * SECOND
    assert [(v.promise, v.job_id) for v in story.check().violations] == [(5, "later")]
    story.options["final"] = False
    assert story.check().ok


def test_a_key_may_be_used_again_once_its_job_was_pruned() -> None:
    async def run() -> Story:
        story = Story()
        await story.enqueue(draft("x", keep=0, idempotency_key="k"))
        await story.complete(await story.claim("x"))
        await story.enqueue(draft("y", idempotency_key="k"))
        await story.complete(await story.claim("y"))
        return await story.end()

    assert asyncio.run(run()).check().ok


@pytest.mark.parametrize("alike", [True, False])
def test_back_offs_are_spread(alike: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> Story:
        story = Story()
        if alike:
            monkeypatch.setattr(story.clock.random, "uniform", lambda low, high: high)
        await story.enqueue(*(draft(f"j{number}") for number in range(20)))
        for number in range(20):
            await story.fail(await story.claim(f"j{number}"))
        story.options["final"] = False
        return await story.end()

    story = asyncio.run(run())
    for operation in story.history.operations:
        operation.arguments.pop("delay_us", None)  # as an app sees it: no one asked for a delay
    assert [violation.promise for violation in story.check().violations] == ([15] if alike else [])


def test_counts_beyond_what_is_exact() -> None:
    story = Story()
    job = draft("job").job(0)
    for number in range(10_001):
        each = replace(job, id=str(number))
        story.items.append((each, [transitions.log(None, each, EventName.ENQUEUED, 0)]))
    with Recorder(story.history, "p").operation("counts") as operation:
        operation.returned({"pending": 9_000, "exact": False})
    story.options = {"complete": False, "final": False}
    assert story.check().ok


# Telling


def test_a_violation_shows_the_calls_among_the_events(story: Story) -> None:
    two_holders(story)
    [violation] = story.check().violations

    head, *rows = str(violation).splitlines()
    assert "two held it at once" in head
    assert violation.event is story.events("d")[3]
    assert violation.operation is story.operation("claim", "d", 1)
    marked = [line.split()[:4] for line in rows if line.startswith(">")]
    assert marked == [[">", "call", "p1", "claim"], [">", "log", "#4", "claimed"]]
    kinds = [line[2:].split()[0] for line in rows]
    assert {"log", "call"} == set(kinds)


def test_an_unanswered_call_is_shown_as_such(story: Story) -> None:
    story.lose_reply(story.operation("enqueue", "f"))
    event_dropped(story)
    lost_job(story)
    report = story.check()
    story.lose_reply(story.operation("complete", "b"))
    assert "never answered" in str(story.check())
    assert report.broken == 2


def test_violations_beyond_the_limit_are_counted(story: Story) -> None:
    story.items = []
    story.options["limit"] = 1
    report = story.check()
    assert len(report.violations) == 1
    assert report.broken == 7 + 1  # seven jobs, and their counts
    assert str(report).endswith("… and 7 more")


# Whatever clients do to the memory store is clean


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
