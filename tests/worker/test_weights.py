"""A worker of several queues with weights: each has its share, an empty one's is the others', and none starves."""

import asyncio
from collections import Counter
from typing import Any

import pytest

import dibs
from dibs import App, FakeClock, InvalidRequest, Job, Status, Worker
from dibs.broker.protocol import Ask, Broker
from dibs.cli.order import _queues
from dibs.worker.shares import REST, Shares
from tests.worker.conftest import until, until_counts, working


class Told:
    """A task that tells which queue each of its jobs was in, in the order in which they are begun."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.begun: list[str] = []
        self.stop_at: int | None = None
        self.worker: Worker | None = None

        @app.task
        async def tell() -> None:
            self.begun.append(dibs.current().job.queue)
            if self.worker is not None and len(self.begun) == self.stop_at:
                self.worker.stop()
            await asyncio.sleep(0)

        self.task = tell

    async def fill(self, **numbers: int) -> None:
        for queue, number in numbers.items():
            await self.app.enqueue_many([self.task.options(queue=queue).job() for _ in range(number)])

    async def begin(self, number: int, **options: Any) -> Counter[str]:
        """Run a worker until so many were begun; count the first of them by queue."""
        self.worker, self.stop_at = Worker(self.app, **options), number
        await asyncio.wait_for(self.worker.run(), 30)
        return Counter(self.begun[:number])


@pytest.mark.parametrize("concurrency", [1, 7])
async def test_full_queues_are_begun_as_their_weights(app: App, concurrency: int) -> None:
    told = Told(app)
    await told.fill(slow=400, fast=400, middle=400)  # by age alone, slow would be first
    counted = await told.begin(300, queues={"fast": 6, "middle": 3, "slow": 1}, concurrency=concurrency)
    assert counted["fast"] == pytest.approx(180, rel=0.1)
    assert counted["middle"] == pytest.approx(90, rel=0.1)
    assert counted["slow"] == pytest.approx(30, rel=0.1)


async def test_weights_go_before_priority_which_goes_within_a_queue(app: App) -> None:
    told = Told(app)
    await app.enqueue_many([told.task.options(queue="loud", priority="high").job() for _ in range(100)])
    await told.fill(quiet=100)
    counted = await told.begin(60, queues={"loud": 1, "quiet": 1}, concurrency=3)
    assert counted["quiet"] == pytest.approx(30, rel=0.1)


async def test_none_starves_however_full_the_others_are(app: App) -> None:
    told = Told(app)
    await told.fill(full=300)
    await told.fill(small=2)
    await told.begin(202, queues={"full": 100, "small": 1}, concurrency=1, prefetch=0)
    assert Counter(told.begun)["small"] == 2


async def test_an_empty_queues_share_goes_to_the_others_as_their_weights(app: App) -> None:
    told = Told(app)
    await told.fill(b=300, c=300)
    counted = await told.begin(200, queues={"a": 6, "b": 3, "c": 1}, concurrency=2)
    assert counted["b"] == pytest.approx(150, rel=0.1)
    assert counted["c"] == pytest.approx(50, rel=0.1)


async def test_a_queue_that_runs_empty_leaves_the_rest_to_the_other_and_until_idle_ends(app: App) -> None:
    told = Told(app)
    await told.fill(fast=20, slow=200)
    worker = Worker(app, queues={"fast": 5, "slow": 1}, concurrency=4)
    await asyncio.wait_for(worker.run(until_idle=True), 30)
    assert Counter(told.begun) == {"fast": 20, "slow": 200}
    assert told.begun[:30].count("fast") == 20, "in its share, though the other was older"
    assert (await app.verify()).ok


async def test_jobs_that_come_while_it_waits_are_picked_up_whichever_queue_they_are_in(app: App) -> None:
    told = Told(app)
    async with working(app, queues={"a": 3, "b": 1, "c": 1}, concurrency=2):
        for queue in ("c", "a", "b", "b", "c"):
            job = await told.task.options(queue=queue).enqueue()
            assert (await app.wait(job.id, 10)).status is Status.COMPLETED
    assert told.begun == ["c", "a", "b", "b", "c"]


async def test_only_these_queues(app: App) -> None:
    told = Told(app)
    await told.fill(mine=3, other=3)
    await asyncio.wait_for(Worker(app, queues={"mine": 1}).run(until_idle=True), 30)
    assert told.begun == ["mine"] * 3
    assert (await app.counts("other")).pending == 3


async def test_a_slow_worker_claims_no_more_than_it_can_start(app: App) -> None:
    go = asyncio.Event()

    @app.task
    async def slow() -> None:
        await go.wait()

    await app.enqueue_many([slow.options(queue=queue).job() for queue in ("a", "b", "c") for _ in range(5)])
    async with working(app, queues={"a": 1, "b": 1, "c": 1}, concurrency=2):
        await until_counts(app, lambda counts: counts.claimed >= 2)
        await asyncio.sleep(0.2)
        assert (await app.counts()).claimed == 2
        go.set()
        await until_counts(app, lambda counts: counts.completed == 15)


class Partly:
    """A broker whose claims of one queue do not come back, or are refused, while those of the others do."""

    def __init__(self, app: App, queue: str | None = None, error: dibs.DibsError | None = None) -> None:
        self._broker: Broker = app.runtime.broker()
        self._queue, self._error = queue, error
        self.asks: list[Ask] = []
        self.asked = asyncio.Event()
        self.answered = 0

    @classmethod
    def under(cls, app: App, monkeypatch: pytest.MonkeyPatch, *options: Any) -> "Partly":
        """Put one under the app, on this loop."""
        partly, loop, others = cls(app, *options), asyncio.get_running_loop(), app.runtime.broker
        monkeypatch.setattr(app.runtime, "broker", lambda: partly if asyncio.get_running_loop() is loop else others())
        return partly

    async def claim(self, ask: Ask) -> list[Job]:
        self.asks.append(ask)
        if ask.queues is not None and list(ask.queues) == [self._queue]:
            first = not self.asked.is_set()
            self.asked.set()
            if first and self._error is not None:
                raise self._error
            if first:
                await asyncio.sleep(60)
        jobs = await self._broker.claim(ask)
        self.answered += len(jobs)
        return jobs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)


async def test_stopped_with_some_queues_answered(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(app)
    await told.fill(a=5, b=5)
    partly = Partly.under(app, monkeypatch, "b")
    worker = Worker(app, queues={"a": 1, "b": 1}, concurrency=4)
    running = asyncio.create_task(worker.run())
    await partly.asked.wait()
    await until(lambda: partly.answered)
    worker.stop()
    await asyncio.wait_for(running, 10)
    counts = await app.counts()
    assert (counts.claimed, counts.pending, told.begun, worker.given_back) == (0, 10, [], 2)
    assert (await app.verify()).ok


async def test_refused_with_some_queues_answered(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(app)
    await told.fill(a=5, b=5)
    Partly.under(app, monkeypatch, "b", dibs.StoreUnavailable("for a moment"))
    await asyncio.wait_for(Worker(app, queues={"a": 1, "b": 1}, concurrency=4).run(until_idle=True), 30)
    assert Counter(told.begun) == {"a": 5, "b": 5}
    assert (await app.verify()).ok


async def test_the_place_of_an_empty_queue_is_dealt_again_and_not_given_to_the_oldest(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told(app)
    await told.fill(b=20, c=20)
    partly = Partly.under(app, monkeypatch)
    await told.begin(10, queues={"a": 5, "b": 1, "c": 1}, concurrency=1, prefetch=0)
    assert Counter(told.begun) == {"b": 5, "c": 5}
    asked = [list(ask.queues or ()) for ask in partly.asks]
    assert asked[0] == ["a"]
    assert max(map(len, asked)) == 1, "none was for all of them together"


async def test_all_of_them_are_waited_for_by_one_claim(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    Told(app)
    partly = Partly.under(app, monkeypatch)
    async with working(app, queues={"a": 5, "b": 1, "c": 1}, concurrency=4):
        await until(lambda: any(ask.wait for ask in partly.asks))
        await asyncio.sleep(0.2)
    waits = [(list(ask.queues or ()), ask.limit) for ask in partly.asks if ask.wait]
    assert waits == [(["a", "b", "c"], 4)]
    assert len(partly.asks) == 4, "each by itself, then all"


async def test_what_a_worker_says_of_itself(app: App) -> None:
    Told(app)
    async with working(app, worker_id="w1", queues={"a": 3, "b": 1}):
        async with asyncio.timeout(10):
            while not (known := await app.workers()) or not known[0].metadata:  # noqa: ASYNC110 - it beats when it can
                await asyncio.sleep(0.005)
        metadata = known[0].metadata
        assert (metadata["queues"], metadata["weights"]) == (["a", "b"], {"a": 3, "b": 1})


def job_of(queue: str) -> Any:
    return type("Taken", (), {"queue": queue})()


def test_what_an_empty_queue_did_not_use_is_not_saved_up() -> None:
    clock = FakeClock()
    shares = Shares({"a": 1, "b": 1}, clock)
    for _ in range(50):  # only b has jobs
        dealt = shares.deal(2)
        shares.took([job_of("b") for _ in range(dealt.get("b", 0))], dealt)
        clock.advance(REST / 2)
    clock.advance(REST)
    assert shares.deal(10) == {"a": 5, "b": 5}


def test_what_was_taken_while_the_others_were_empty_is_not_held_against_a_queue() -> None:
    clock = FakeClock()
    shares = Shares({"a": 1, "b": 1}, clock)
    shares.took([], shares.deal(2))
    assert shares.deal(2) == {}, "both rest: they are asked for together"
    shares.took([job_of("b")] * 50)
    clock.advance(REST)
    assert shares.deal(10) == {"a": 5, "b": 5}


def test_an_empty_queue_rests_and_then_is_asked_again() -> None:
    clock = FakeClock()
    shares = Shares({"a": 9, "b": 1}, clock)
    shares.took([job_of("b")], {"a": 9, "b": 1})
    assert shares.deal(10) == {"b": 10}
    clock.advance(REST)
    assert shares.deal(10) == {"a": 9, "b": 1}


def test_places_are_dealt_evenly_one_by_one() -> None:
    shares = Shares({"fast": 3, "slow": 1}, FakeClock())
    dealt: list[str] = []
    for _ in range(8):
        [queue] = one = shares.deal(1)
        shares.took([job_of(queue)], one)
        dealt.append(queue)
    assert Counter(dealt[:4]) == Counter(dealt[4:]) == {"fast": 3, "slow": 1}


@pytest.mark.parametrize(
    ("queues", "field"),
    [
        ({}, "queues"),
        ({"a b": 1}, "queues[0]"),
        ({5: 1}, "queues[0]"),
        ({"a": 0}, "queues['a']"),
        ({"a": 101}, "queues['a']"),
        ({"a": 1.5}, "queues['a']"),
        ({"a": True}, "queues['a']"),
        ({"a": "5"}, "queues['a']"),
        ({"a": None}, "queues['a']"),
    ],
)
def test_nonsense_is_refused_before_it_starts(queues: Any, field: str) -> None:
    app = App("memory://")
    Told(app)
    with pytest.raises(InvalidRequest) as error:
        Worker(app, queues=queues)
    assert error.value.problems[0].field == field


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (None, None),
        (["a", "b"], ["a", "b"]),
        (["a", "a"], ["a", "a"]),
        (["a=5", "b=1"], {"a": 5, "b": 1}),
        (["a=5", "b"], {"a": 5, "b": 1}),
        (["b", "a=100"], {"b": 1, "a": 100}),
    ],
)
def test_the_command_line_takes_weights(given: list[str] | None, read: Any) -> None:
    assert _queues(given) == read


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["a="], "whole number from 1 to 100"),
        (["a=x"], "whole number from 1 to 100"),
        (["a=0"], "whole number from 1 to 100"),
        (["a=101"], "whole number from 1 to 100"),
        (["a=1.5"], "whole number from 1 to 100"),
        (["a=-1"], "whole number from 1 to 100"),
        (["a=1=2"], "whole number from 1 to 100"),
        (["a=²"], "whole number from 1 to 100"),
        (["a=1" + "0" * 5000], "whole number from 1 to 100"),
        (["a=1", "a=2"], "given twice"),
        (["a", "a=2"], "given twice"),
    ],
)
def test_the_command_line_says_what_is_wrong_with_a_weight(given: list[str], says: str) -> None:
    with pytest.raises(InvalidRequest, match=says) as error:
        _queues(given)
    assert error.value.problems[0].field == "queue"
