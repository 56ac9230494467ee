"""A copy, rule by rule, on the store in memory and a clock that can be moved."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from dibs.broker.copying import COPIES, IDENTITY, Copied, Copy
from dibs.clock import FakeClock
from dibs.domain import transitions
from dibs.domain.errors import InvalidRequest, WrongState
from dibs.domain.job import Document, Job
from dibs.store import PAUSED, Store
from dibs.stores.memory import MemoryStore
from dibs.testing.conformance.builders import (
    claim,
    claim_one,
    completed,
    enqueue,
    find,
    ids,
    named,
    new_job,
    new_jobs,
    one,
    read,
    settle,
)
from tests.copying.lives import DOCUMENTS, contents, fill, furnish


class Meddled(MemoryStore):
    """A store in which something happens while it is read or written."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.meddle: dict[str, Any] = {}  # after which call, what

    async def _after(self, call: str) -> None:
        does = self.meddle.pop(call, None)
        if does is not None:
            await does()

    async def restore(self, items: Any) -> list[Job | None]:
        answer = await super().restore(items)
        await self._after("restore")
        return answer

    async def audit(self, cursor: str | None, limit: int) -> Any:
        answer = await super().audit(cursor, limit)
        await self._after("audit")
        return answer

    async def put(
        self, name: str, value: bytes | None, *, expect: int | None = None, keep_us: int | None = None
    ) -> Document | None:
        answer = await super().put(name, value, expect=expect, keep_us=keep_us)
        await self._after("put")
        return answer


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def source(clock: FakeClock) -> Meddled:
    return Meddled(clock)


@pytest.fixture
def target(clock: FakeClock) -> Meddled:
    return Meddled(clock)


async def copied(source: Store, target: Store, clock: FakeClock, wait: float = 0.0) -> Copied:
    return await Copy(source, target, clock).run(wait)


async def test_everything_is_there_afterwards(source: Meddled, target: Meddled, clock: FakeClock) -> None:
    await fill(source, 700)
    await furnish(source)
    before = await contents(source)

    done = await copied(source, target, clock)

    assert await contents(target) == before
    assert (done.jobs, done.events) == (700, sum(len(events) for _, events in before))
    assert not done.resumed
    assert not done.later
    for name, value in DOCUMENTS.items():
        document = await target.read(name)
        assert document is not None
        assert document.value == value
    brief, there = await source.read("once/brief"), await target.read("once/brief")
    assert brief is not None
    assert there is not None
    assert brief.expires_us == there.expires_us
    assert await target.documents("worker/") == []
    assert await target.read(IDENTITY) is None


async def test_one_store_at_a_time_hands_out_jobs(source: Meddled, target: Meddled, clock: FakeClock) -> None:
    await fill(source, 200)
    await furnish(source)  # which pauses a/b
    seen: list[list[Job]] = []

    async def look() -> None:
        seen.append(await claim(source))
        seen.append(await claim(target))

    target.meddle["restore"] = look
    await copied(source, target, clock)

    assert seen == [[], []]
    assert await claim(source) == []
    assert {job.queue for job in await claim(target)} == {"default", "mail"}
    assert [document.name for document in await target.documents(PAUSED)] == [PAUSED + "a/b"]
    assert (await target.documents(PAUSED))[0].value == b'{"by":"ann"}'


async def test_a_claimed_job_is_refused_and_what_is_not_held_any_more_is_taken_back(
    source: Meddled, target: Meddled, clock: FakeClock
) -> None:
    await enqueue(source, *new_jobs(3))
    held = await claim_one(source, "ann-1", lease=60)
    await claim_one(source, "gone", lease=5)
    clock.advance(10)

    with pytest.raises(WrongState, match=f"1 job is claimed in FROM, such as {held.id}, by ann-1") as refused:
        await copied(source, target, clock)

    assert "--wait" in refused.value.hint
    assert await find(target) == []
    assert await claim(source) == []  # it hands out nothing more, so that the next time there is less to wait for
    await settle(source, completed(held))
    assert (await copied(source, target, clock)).jobs == 3
    assert await contents(target) == await contents(source)


async def test_claims_are_waited_for(source: Meddled, target: Meddled, clock: FakeClock) -> None:
    await enqueue(source, *new_jobs(3))
    held = await claim_one(source, lease=60)
    running = asyncio.ensure_future(copied(source, target, clock, wait=30))
    for _ in range(10):
        await asyncio.sleep(0)
        clock.advance(1)
    assert not running.done()
    await settle(source, completed(held))
    while not running.done():
        await asyncio.sleep(0)
        clock.advance(1)
    assert running.result().jobs == 3


async def test_a_job_claimed_after_all_is_noticed(source: Meddled, target: Meddled, clock: FakeClock) -> None:
    await enqueue(source, *new_jobs(3))

    async def hand_out() -> None:  # by a user who resumes the queue in the middle
        await source.put(PAUSED + "default", None)
        await claim_one(source, "late")

    target.meddle["restore"] = hand_out
    with pytest.raises(WrongState, match="claimed in FROM"):
        await copied(source, target, clock)
    assert await claim(target) == []


async def test_the_target_must_have_no_jobs(source: Meddled, target: Meddled, clock: FakeClock) -> None:
    await enqueue(source, *new_jobs(3))
    await enqueue(target, new_job("mine"))

    with pytest.raises(WrongState, match="TO has jobs of its own, such as mine"):
        await copied(source, target, clock)
    assert ids(await find(target)) == ["mine"]
    assert len(await claim(source)) == 3  # nothing was begun


async def test_a_store_is_not_copied_to_itself(source: Meddled, clock: FakeClock) -> None:
    await enqueue(source, *new_jobs(3))

    with pytest.raises(InvalidRequest, match="to: is the same store as FROM"):
        await copied(source, source, clock)
    assert len(await claim(source)) == 3


class Cut(Exception):
    """Stands for a SIGKILL."""


async def cut() -> None:
    raise Cut


@pytest.mark.parametrize("call", ["restore", "put", "audit"])
async def test_a_copy_that_was_cut_goes_on(
    source: Meddled, target: Meddled, clock: FakeClock, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dibs.broker.comparing.STEP", 100)
    await fill(source, 600)
    await furnish(source)
    before = await contents(source)
    cuts = 0
    done = None
    while done is None:  # a call further each time
        target.meddle[call] = _then(cuts, target, call, cut)
        try:
            done = await copied(source, target, clock)
        except Cut:
            cuts += 1
            assert await claim(target) == [], "handed out before it was whole"
    target.meddle.clear()
    assert cuts >= 3
    assert done.resumed
    assert await contents(target) == before


def _then(number: int, store: Meddled, call: str, does: Any) -> Any:
    """Do something at the call after so many others."""
    if not number:
        return does

    async def pass_by() -> None:
        store.meddle[call] = _then(number - 1, store, call, does)

    return pass_by


async def test_what_is_enqueued_meanwhile_is_copied_too(source: Meddled, target: Meddled, clock: FakeClock) -> None:
    await fill(source, 300)

    async def more() -> None:
        await enqueue(source, *new_jobs(5, queue="new"))
        await source.put("once/late", b"1")

    target.meddle["audit"] = more  # while it is compared
    done = await copied(source, target, clock)

    assert done.jobs == 305
    assert await contents(target) == await contents(source)
    assert await target.read("once/late") is not None
    assert await claim(source, queues=("new",)) == []
    assert len(await claim(target, queues=("new",))) == 5


async def test_what_has_changed_meanwhile_is_brought_up_to_date(
    source: Meddled, target: Meddled, clock: FakeClock
) -> None:
    await enqueue(source, *(new_job(id, unique_key=f"key-{id}") for id in ("a", "b", "c", "d")))
    await settle(source, completed(await claim_one(source, id="c")))

    async def change() -> None:
        clock.advance(1)
        await settle(source, transitions.cancel("a", "ann"), transitions.redrive("c", "ann"))
        await settle(source, transitions.cancel("d", "ann"))
        await settle(source, transitions.purge("d", "ann"))

    target.meddle["restore"] = change
    await copied(source, target, clock)

    here, there = [{job.id: (job, events) for job, events in await contents(each)} for each in (source, target)]
    assert there == here
    assert sorted(here) == ["a", "b", "c"]
    assert [event.event for event in await target.log("a")] == ["enqueued", "cancelled"]


async def test_a_job_that_is_otherwise_different_is_an_error_that_names_it(
    source: Meddled, target: Meddled, clock: FakeClock
) -> None:
    await enqueue(source, *(new_job(id) for id in ("a", "b")))

    async def change() -> None:
        await settle(target, transitions.cancel("b", "someone"))

    target.meddle["restore"] = change
    with pytest.raises(WrongState, match="the job 'b' is in both stores, and is not the same"):
        await copied(source, target, clock)
    assert await claim(target) == []


async def test_a_job_of_the_target_with_the_id_of_another_is_an_error_that_names_it(
    source: Meddled, target: Meddled, clock: FakeClock
) -> None:
    await enqueue(source, new_job("a"))
    await settle(source, transitions.release((await claim_one(source)).ref))
    clock.advance(1)

    async def enqueue_own() -> None:
        await enqueue(target, new_job("a", params=b"2"))

    target.meddle["put"] = enqueue_own
    with pytest.raises(WrongState, match="the job 'a' is in both stores, and is not the same"):
        await copied(source, target, clock)
    assert (await read(target, "a")).params_json == b"2"


async def test_what_a_resumed_queue_has_done_is_copied_too(source: Meddled, target: Meddled, clock: FakeClock) -> None:
    await enqueue(source, new_job("a"), new_job("b"))

    async def work() -> None:  # when the source has just been compared
        await source.put(PAUSED + "default", None)
        await settle(source, completed(await claim_one(source, id="a")))

    source.meddle["audit"] = _then(1, source, "audit", work)
    await copied(source, target, clock)

    assert not source.meddle
    assert (await read(target, "a")).status == "completed"
    assert await claim(source) == []
    assert ids(await claim(target)) == ["b"]


async def test_what_the_target_alone_has_stays(source: Meddled, target: Meddled, clock: FakeClock) -> None:
    await enqueue(source, new_job("a"), new_job("b", idempotency_key="key"))

    async def move_on() -> None:  # a producer that uses the new store already
        await enqueue(target, new_job("c"))

    target.meddle["restore"] = move_on
    assert (await copied(source, target, clock)).jobs == 2
    assert sorted(ids(await claim(target))) == ["a", "b", "c"]


@pytest.mark.parametrize("field", ["idempotency_key", "unique_key"])
async def test_one_key_is_one_job_though_a_producer_has_moved_on(
    source: Meddled, target: Meddled, clock: FakeClock, field: str
) -> None:
    await enqueue(source, named(field, "key", id="a"), new_job("b"))

    async def move_on() -> None:  # and sends once more what it had sent to the old store
        await enqueue(target, named(field, "key", id="mine"))

    target.meddle["put"] = move_on
    done = await copied(source, target, clock)

    assert (done.jobs, done.duplicates) == (1, 1)
    assert sorted(ids(await claim(target))) == ["b", "mine"]


async def test_a_key_that_the_target_alone_has_is_told(source: Meddled, target: Meddled, clock: FakeClock) -> None:
    await enqueue(source, new_job("a", idempotency_key="key", params=b"1"))

    async def move_on() -> None:
        await enqueue(target, new_job("mine", idempotency_key="key", params=b"2"))

    target.meddle["put"] = move_on
    with pytest.raises(WrongState, match="'a' cannot be copied: the job 'mine', which TO alone has"):
        await copied(source, target, clock)
    assert await claim(target) == []


@pytest.mark.parametrize("purged", [False, True])
async def test_a_key_that_was_let_go_meanwhile_is_the_next_ones(
    source: Meddled, target: Meddled, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, purged: bool
) -> None:
    monkeypatch.setattr("dibs.broker.comparing.STEP", 1)
    await enqueue(source, new_job("old", unique_key="key"), new_job("between"))

    async def pass_on() -> None:  # when the first was put down, and still has its key there
        clock.advance(1)
        await settle(source, transitions.cancel("old"))
        if purged:
            await settle(source, transitions.purge("old"))
        await enqueue(source, new_job("new", unique_key="key"))

    target.meddle["restore"] = pass_on
    done = await copied(source, target, clock)

    assert done.duplicates == 0
    assert sorted(ids(await claim(target))) == ["between", "new"]


async def test_a_new_queue_of_the_source_hands_out_nothing_either(
    source: Meddled, target: Meddled, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dibs.broker.comparing.STEP", 100)
    await fill(source, 300)

    async def more() -> None:
        await enqueue(source, new_job("late", queue="new"))

    target.meddle["restore"] = more  # long before the last page is read: the first comparison finds nothing missing
    done = await copied(source, target, clock)

    assert "new" in done.queues
    assert await claim(source) == []
    assert ids(await claim(target, queues=("new",))) == ["late"]


async def test_again_brings_only_what_came_later(source: Meddled, target: Meddled, clock: FakeClock) -> None:
    await enqueue(source, *(new_job(id, keep=0) for id in ("a", "b")))
    await copied(source, target, clock)
    clock.advance(1)
    [first] = await target.claim([one(limit=1)])
    await settle(target, *map(completed, first))  # which is kept for no time

    await enqueue(source, new_job("late"))
    done = await copied(source, target, clock)

    assert (done.jobs, done.resumed, done.later) == (1, True, True)
    assert sorted(ids(await find(target))) == ["b", "late"]
    assert (await copied(source, target, clock)).jobs == 0
    clock.advance(2 * 86_400)  # after which the target does not know any more that there was an "a"
    await target.prune(100)
    assert (await copied(source, target, clock)).jobs == 0
    assert sorted(ids(await claim(target))) == ["b", "late"]


async def test_again_brings_what_was_committed_late(source: Meddled, target: Meddled, clock: FakeClock) -> None:
    other = MemoryStore(clock)
    [early] = await enqueue(other, new_job("early"))  # in a transaction that stays open for long
    clock.advance(1)
    await enqueue(source, new_job("a", keep=0))
    await copied(source, target, clock)
    await settle(target, completed(await claim_one(target)))
    await source.restore([(early, await other.log("early"))])

    assert (await copied(source, target, clock)).jobs == 1
    assert ids(await claim(target)) == ["early"]


async def test_again_in_vain_leaves_the_target_in_use(source: Meddled, target: Meddled, clock: FakeClock) -> None:
    await enqueue(source, new_job("a"))
    await copied(source, target, clock)
    clock.advance(1)
    await enqueue(target, new_job("mine", idempotency_key="key", params=b"1"))
    await enqueue(source, new_job("other", idempotency_key="key", params=b"2"), new_job("late"))

    with pytest.raises(WrongState, match="'other' cannot be copied"):
        await copied(source, target, clock)
    assert sorted(ids(await claim(target))) == ["a", "late", "mine"]


async def test_two_copies_at_once_are_noticed(source: Meddled, target: Meddled, clock: FakeClock) -> None:
    await fill(source, 200)

    async def another() -> None:
        await copied(source, target, clock)

    target.meddle["restore"] = another
    with pytest.raises(WrongState, match="another `dibs copy` of the same stores is under way"):
        await copied(source, target, clock)
    assert await contents(target) == await contents(source)


async def test_half_a_copy_is_neither_copied_nor_copied_to(source: Meddled, target: Meddled, clock: FakeClock) -> None:
    await fill(source, 100)
    target.meddle["restore"] = cut
    with pytest.raises(Cut):
        await copied(source, target, clock)
    third = MemoryStore(clock)
    await enqueue(third, new_job())

    with pytest.raises(WrongState, match="another copy to FROM was begun"):
        await copied(target, MemoryStore(clock), clock)
    with pytest.raises(WrongState, match="another copy to TO was begun"):
        await copied(third, target, clock)


async def test_a_store_that_breaks_a_promise_is_not_copied(source: Meddled, target: Meddled, clock: FakeClock) -> None:
    await enqueue(source, new_job("a"))
    await settle(source, completed(await claim_one(source)))
    row = source._table.rows["a"]
    row.events[-1] = replace(row.events[-1], fence=7)

    with pytest.raises(WrongState, match=r"'a' cannot be restored: .*fence 7"):
        await copied(source, target, clock)


async def test_a_chain_of_copies_ends_as_it_began(source: Meddled, target: Meddled, clock: FakeClock) -> None:
    await fill(source, 200)
    third = MemoryStore(clock)
    before = await contents(source)
    await copied(source, target, clock)
    await copied(target, third, clock)

    assert await contents(third) == before
    assert await claim(target) == []
    assert await claim(third, queues=("a/b",)) != []  # paused by a copy is not paused by a user
    assert [document.name for document in await third.documents(COPIES)] != []


async def test_fences_go_on(source: Meddled, target: Meddled, clock: FakeClock) -> None:
    await enqueue(source, new_job("a"))
    await settle(source, transitions.release((await claim_one(source)).ref))
    await copied(source, target, clock)

    assert (await claim_one(target)).fence == 2
    assert (await read(target, "a")).events == 4
