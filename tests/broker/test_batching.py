"""Calls that meet in time become one call, and nobody gets lost on the way."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from dibs.broker.batching import Batcher, to_its_end
from dibs.broker.local import LocalBroker
from dibs.broker.protocol import Ask
from dibs.clock import Clock, FakeClock
from dibs.domain.errors import StoreUnavailable
from dibs.domain.job import Filter, Job, Ref
from dibs.domain.settings import Config
from dibs.store import Store
from dibs.stores.memory import MemoryStore
from dibs.testing.conformance.broker.verbs import claim, claim_one, complete, enqueue, extend, fail, new, settle, take
from tests.broker.stores import FlakyStore, RecordingStore, SlowStore


class Post:
    """Sends numbers away and answers with their doubles, one letter at a time."""

    def __init__(self) -> None:
        self.sent: list[list[int]] = []
        self.returned: list[int] = []
        self.open = asyncio.Event()
        self.open.set()
        self.trouble: Exception | None = None

    async def send(self, items: list[int]) -> list[int]:
        self.sent.append(items)
        await self.open.wait()
        if self.trouble is not None:
            raise self.trouble
        return [item * 2 for item in items]

    async def give_back(self, answers: list[int]) -> None:
        self.returned += answers


def batcher(post: Post, *, most: int = 100, returns: bool = False) -> Batcher[int, int]:
    return Batcher[int, int](post.send, most=most, give_back=post.give_back if returns else None)


async def turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_calls_of_one_turn_become_one_send():
    post = Post()
    batch = batcher(post)

    answers = await asyncio.gather(batch.call([1]), batch.call([2, 3]), batch.call([4]))

    assert post.sent == [[1, 2, 3, 4]]
    assert list(answers) == [[2], [4, 6], [8]]  # each to its caller, in order


async def test_no_items_are_not_sent():
    post = Post()

    assert await batcher(post).call([]) == []
    assert post.sent == []


async def test_a_call_alone_leaves_at_once():
    post = Post()
    calling = asyncio.create_task(batcher(post).call([1]))
    await turns(3)

    assert (post.sent, calling.done()) == ([[1]], True)


async def test_while_one_batch_is_on_its_way_the_next_one_gathers():
    post = Post()
    post.open.clear()
    batch = batcher(post)
    calls = []
    for item in range(5):
        calls.append(asyncio.create_task(batch.call([item])))
        await turns(3)
    assert post.sent == [[0]]
    post.open.set()

    assert await asyncio.gather(*calls) == [[0], [2], [4], [6], [8]]
    assert post.sent == [[0], [1, 2, 3, 4]]


async def test_a_send_holds_no_more_than_it_may_unless_one_call_does():
    post = Post()
    batch = batcher(post, most=3)

    answers = await asyncio.gather(*(batch.call(list(range(size))) for size in (2, 2, 1, 5, 1)))

    assert [len(items) for items in post.sent] == [2, 3, 5, 1]
    assert [len(own) for own in answers] == [2, 2, 1, 5, 1]


async def test_an_error_reaches_all_callers_of_that_send_and_no_others():
    post = Post()
    post.trouble = StoreUnavailable("down")
    batch = batcher(post)

    answers = await asyncio.gather(batch.call([1]), batch.call([2]), return_exceptions=True)
    assert [str(type(answer).__name__) for answer in answers] == ["StoreUnavailable"] * 2

    post.trouble = None
    assert await batch.call([3]) == [6]


async def test_what_was_called_is_sent_though_its_caller_has_gone():
    post = Post()
    post.open.clear()
    batch = batcher(post)
    first, second, third = [asyncio.create_task(batch.call([item])) for item in (1, 2, 3)]
    await turns(1)
    late = asyncio.create_task(batch.call([4]))
    await turns(2)
    for task in (first, late):
        task.cancel()
    await asyncio.wait({first, late})
    post.open.set()

    assert list(await asyncio.gather(second, third)) == [[4], [6]]
    await turns(5)
    assert post.sent == [[1, 2, 3], [4]]


async def test_with_a_way_back_an_unsent_call_vanishes_and_a_sent_one_is_returned():
    post = Post()
    post.open.clear()
    batch = batcher(post, returns=True)
    sent = [asyncio.create_task(batch.call([item])) for item in (1, 2)]
    await turns(3)
    unsent = [asyncio.create_task(batch.call([item])) for item in (3, 4)]
    await turns(3)
    for task in (sent[0], unsent[0]):
        task.cancel()
    await asyncio.wait({sent[0], unsent[0]})
    post.open.set()

    assert list(await asyncio.gather(sent[1], unsent[1])) == [[4], [8]]
    assert post.sent == [[1, 2], [4]]
    assert post.returned == [2]


async def test_all_callers_gone_leaves_a_batcher_that_works():
    post = Post()
    batch = batcher(post, returns=True)
    calls = [asyncio.create_task(batch.call([item])) for item in range(3)]
    await turns(1)
    for task in calls:
        task.cancel()
    await asyncio.wait(calls)
    await turns(5)

    assert await batch.call([9]) == [18]
    assert post.sent == [[9]]


async def test_one_who_cannot_be_given_back_to_troubles_no_one_else(caplog: pytest.LogCaptureFixture):
    store = FlakyStore(FakeClock())
    broker = LocalBroker(store, FakeClock(), Config.of())
    job = await enqueue(broker)
    batch = Batcher[int, Job](_lend(job), most=1, give_back=_refuse)
    gone, waits = asyncio.create_task(batch.call([1])), asyncio.create_task(batch.call([2]))
    await turns(2)
    gone.cancel()

    assert (await waits)[0].id == job.id
    assert "could not give back" in caplog.text


def _lend(job: Job):
    async def send(items: list[int]) -> list[Job]:
        await turns(3)
        return [job] * len(items)

    return send


async def _refuse(answers: list[Job]) -> None:
    raise StoreUnavailable


async def test_a_broker_merges_what_many_ask():
    store = RecordingStore(FakeClock())
    broker = LocalBroker(store, FakeClock(), Config.of())
    await asyncio.gather(*(enqueue(broker) for _ in range(10)))
    jobs = await asyncio.gather(*(claim_one(broker, f"worker-{n}") for n in range(10)))
    await asyncio.gather(*(extend(broker, job.ref) for job in jobs))
    await asyncio.gather(*(settle(broker, complete(job)) for job in jobs))

    assert store.calls == [("insert", 10), ("claim", 10), ("extend", 10), ("write", 10)]
    assert len({job.id for job in jobs}) == 10


async def test_bad_input_never_reaches_those_it_would_be_merged_with():
    broker = LocalBroker(MemoryStore(FakeClock()), FakeClock(), Config.of())
    job, other = await take(broker), await take(broker)

    answers = await asyncio.gather(
        settle(broker, complete(job)),
        settle(broker, fail(other, ref=Ref(other.id, other.fence, "\ud800"))),
        broker.get("\ud800"),
        broker.get(job.id),
        enqueue(broker, params=object()),
        enqueue(broker),
        return_exceptions=True,
    )

    assert [isinstance(answer, Exception) for answer in answers] == [False, True, True, False, True, False]


@pytest.mark.parametrize("after", range(8))
async def test_a_cancelled_enqueue_goes_through(after: int):
    store = MemoryStore(FakeClock())
    broker = LocalBroker(store, FakeClock(), Config.of())
    await broker.counts()  # opens the store: before that, nothing is on its way
    enqueueing = asyncio.create_task(broker.enqueue([new(id="job")]))
    await turns(after + 1)
    enqueueing.cancel()
    await asyncio.wait({enqueueing})
    await turns(10)

    assert [job.id for job in await claim(broker)] == ["job"]


@pytest.mark.parametrize("after", range(8))
async def test_a_cancelled_settle_goes_through(after: int):
    broker = LocalBroker(MemoryStore(FakeClock()), FakeClock(), Config.of())
    job = await take(broker)
    settling = asyncio.create_task(settle(broker, complete(job)))
    await turns(after + 1)
    settling.cancel()
    await asyncio.wait({settling})
    await turns(10)

    assert (await broker.counts()).completed == 1


@pytest.mark.parametrize("after", range(12))
async def test_a_cancelled_claim_holds_nothing(after: int):
    """At whichever turn of the loop it is cancelled: unsent, sent, or answered but not yet awake."""
    broker = LocalBroker(MemoryStore(FakeClock()), FakeClock(), Config.of())
    await enqueue(broker)
    claiming = asyncio.create_task(claim(broker))
    await turns(after)
    claiming.cancel()
    await asyncio.wait({claiming})
    if not claiming.cancelled():
        return  # it had its job before
    await turns(10)

    assert (await broker.counts()).claimed == 0
    assert (await claim_one(broker)).attempts == 0


async def test_a_claim_cancelled_after_its_answer_is_released():
    store = SlowStore(FakeClock())
    broker = LocalBroker(store, FakeClock(), Config.of())
    store.gate.set()
    await enqueue(broker)
    store.gate.clear()
    claiming = asyncio.create_task(claim(broker))
    await store.begun.wait()
    await turns(5)
    assert (await broker.counts()).claimed == 1
    store.gate.set()
    while (await broker.counts()).claimed and not _answered(broker):
        await turns(1)
    claiming.cancel()
    with suppress(asyncio.CancelledError):
        await claiming

    assert claiming.cancelled()
    assert (await broker.counts()).claimed == 0


def _answered(broker: LocalBroker) -> bool:
    """Say whether the batch has been answered, though the caller may not have woken."""
    return broker._claims._running is None


async def test_a_sent_claim_whose_caller_gave_up_is_released_at_once():
    store = SlowStore(FakeClock())
    broker = LocalBroker(store, FakeClock(), Config.of())
    store.gate.set()
    job = await enqueue(broker)
    store.gate.clear()
    store.begun.clear()
    claiming = asyncio.create_task(claim(broker))
    await store.begun.wait()
    claiming.cancel()
    await asyncio.wait({claiming})
    assert (await broker.counts()).claimed == 1  # the answer is still on its way
    store.gate.set()
    await turns(20)

    assert (await broker.counts()).claimed == 0
    assert [event.event.value for event in await broker.log(job.id)] == ["enqueued", "claimed", "released"]


async def test_a_waiting_claim_whose_caller_gave_up_takes_nothing():
    clock = FakeClock()
    broker = LocalBroker(MemoryStore(clock), clock, Config.of())
    claiming = asyncio.create_task(claim(broker, wait=60))
    await turns(20)
    enqueueing = asyncio.create_task(enqueue(broker))
    for _ in range(20):
        await turns(1)
        if enqueueing.done():
            claiming.cancel()
    await asyncio.wait({claiming})
    await turns(20)

    assert (await broker.counts()).claimed == (0 if claiming.cancelled() else 1)


def leave(store: Store, clock: Clock, after: int) -> bool:
    """End an event loop while a claim is somewhere on its way; say whether the claimer had got its job by then."""
    claiming: list[asyncio.Task[list[Job]]] = []

    async def main() -> None:
        broker = LocalBroker(store, clock, Config.of())
        await enqueue(broker)
        asks = [Ask(worker_id=f"worker-{n}") for n in range(3)]
        claiming.extend(asyncio.create_task(broker.claim(ask)) for ask in asks)
        await turns(after)

    asyncio.run(main())
    return any(task.done() and not task.cancelled() and task.exception() is None and task.result() for task in claiming)


@pytest.mark.parametrize("after", range(15))
def test_a_loop_that_ends_in_the_middle_leaves_nothing_claimed(after: int):
    clock = FakeClock()
    store = MemoryStore(clock)
    got = leave(store, clock, after)

    assert asyncio.run(store.counts()).claimed == int(got)
    assert asyncio.run(store.counts()).pending == int(not got)


@pytest.mark.parametrize("after", [1, 2, 3, 4, 5, 6, 8, 12, 20, 40, 80])
def test_a_loop_that_ends_in_the_middle_leaves_nothing_claimed_in_a_file(after: int, tmp_path: Path):
    from dibs.stores.sqlite import SqliteStore

    clock = Clock()
    store = SqliteStore(tmp_path / "dibs.db", clock)
    asyncio.run(store.open())
    for _ in range(5):
        got = leave(store, clock, after)
        counts = asyncio.run(store.counts())
        assert counts.claimed == int(got)
        asyncio.run(_clear(store))
    asyncio.run(store.close())


async def _clear(store: Store) -> None:
    broker = LocalBroker(store, Clock(), Config.of())
    jobs, _ = await broker.find(Filter(), limit=100, cursor=None)
    await broker.cancel([job.id for job in jobs])


def test_a_loop_that_ends_while_an_answer_is_on_its_way_gives_it_back():
    clock = FakeClock()
    stores: list[SlowStore] = []

    async def main() -> None:
        store = SlowStore(clock)
        stores.append(store)
        broker = LocalBroker(store, clock, Config.of())
        store.gate.set()
        await enqueue(broker)
        store.gate.clear()
        store.begun.clear()
        claiming = asyncio.create_task(claim(broker))
        await store.begun.wait()
        assert (await store.counts()).claimed == 1
        asyncio.get_running_loop().call_later(0.05, store.gate.set)
        assert not claiming.done()

    asyncio.run(main())

    assert asyncio.run(stores[0].counts()).claimed == 0


async def test_a_send_that_is_cancelled_from_within():
    """Its caller is told, and the next one is served."""
    given_up: list[int] = []

    async def send(items: list[int]) -> list[int]:
        if not given_up:
            given_up.extend(items)
            inner = asyncio.ensure_future(asyncio.sleep(60))
            asyncio.get_running_loop().call_soon(inner.cancel)
            await inner
        return items

    batch = Batcher[int, int](send, most=10)
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(batch.call([1]), 5)
    assert await asyncio.wait_for(batch.call([2]), 5) == [2]


def test_what_fails_as_a_loop_goes_down_is_told_to_its_caller_alone():
    reported: list[dict[str, object]] = []
    heard: list[str] = []
    callers: list[asyncio.Task[None]] = []

    async def work() -> None:
        await asyncio.sleep(0.01)
        raise LookupError("it is gone")

    async def caller() -> None:
        try:
            await to_its_end(work())
        except LookupError as error:
            heard.append(str(error.args[0]))

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        callers.append(asyncio.create_task(caller()))
        await asyncio.sleep(0)

    asyncio.run(main())
    assert (heard, reported) == (["it is gone"], [])


async def test_work_that_is_cancelled_from_within_is_told_so():
    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await to_its_end(work())
