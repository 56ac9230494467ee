"""Schedules as users write them, and as a worker in this process looks after them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest

from dibs import App, InvalidJob, InvalidRequest, StoreUnavailable, Tasks, Worker
from dibs.clock import Clock
from dibs.domain.schedule import Ticked
from dibs.stores.memory import MemoryStore
from dibs.worker import scheduling


@pytest.fixture
async def app() -> AsyncIterator[App]:
    async with App("memory://") as app:
        yield app


def test_a_function_becomes_a_task_and_stays_callable(app: App) -> None:
    @app.schedule("0 4 * * *", tz="Europe/Berlin", params={"days": 7})
    def report(days: int) -> int:
        return days

    assert report(3) == 3
    assert list(app.tasks) == ["report"]
    [plan] = app.plans
    assert (plan.name, plan.job.task, plan.job.params) == ("report", "report", {"days": 7})
    assert str(plan.timing) == "0 4 * * * Europe/Berlin"


def test_one_task_may_have_several(app: App) -> None:
    @app.schedule(timedelta(minutes=1))
    @app.schedule("0 4 * * *", name="nightly", catch_up="all")
    @app.task(queue="mail", max_attempts=7)
    async def send() -> None: ...

    app.schedule(60, name="urgent")(send.options(priority="high"))

    assert [plan.name for plan in app.plans] == ["nightly", "send", "urgent"]
    assert [(plan.job.queue, plan.job.max_attempts) for plan in app.plans] == [("mail", 7)] * 3
    assert app.plans[2].job.priority == "high"


def test_tasks_that_are_defined_elsewhere(app: App) -> None:
    early, late = Tasks(), Tasks()

    @early.schedule(60)
    def first() -> None: ...

    app.include(early)
    app.include(late)

    @late.schedule(60)
    def second() -> None: ...

    assert [plan.name for plan in app.plans] == ["first", "second"]
    again = Tasks()
    again.schedule(60, name="first")(again.task("other")(lambda: None))
    with pytest.raises(InvalidRequest, match="first"):
        app.include(again)
    assert "other" not in app.tasks


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"catch_up": "some"}, "catch_up"),
        ({"name": "a b"}, "name"),
        ({"name": "taken"}, "name"),
        ({"params": [1]}, "params"),
        ({"params": {"days": 1, "unknown": 1}}, "unknown"),
        ({"params": {}}, "days"),
        ({"tz": "Nowhere"}, "tz"),
    ],
)
def test_a_mistake_is_told_where_it_is_made(app: App, wrong: dict[str, Any], field: str) -> None:
    app.schedule(60, name="taken")(app.task("other")(lambda: None))

    def work(days: int) -> None: ...

    with pytest.raises((InvalidRequest, InvalidJob)) as refused:
        app.schedule("* * * * *", **{"params": {"days": 1}, **wrong})(work)
    assert refused.value.problems[0].field == field
    assert [plan.name for plan in app.plans] == ["taken"]


@pytest.mark.parametrize("options", [{"id": "a"}, {"idempotency_key": "k"}, {"delay": 5}])
def test_a_tick_has_an_id_a_key_and_a_time_of_its_own(app: App, options: dict[str, Any]) -> None:
    task = app.task("work")(lambda: None)
    with pytest.raises(InvalidRequest, match=next(iter(options))):
        app.schedule(60)(task.options(**options))


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - it may be anything
            await asyncio.sleep(0.01)


async def test_until_idle_does_not_tick(app: App) -> None:
    app.schedule(1)(app.task("work")(lambda: None))
    await Worker(app).run(until_idle=True)

    assert await app.schedules() == []


async def test_a_pause_is_heeded_and_a_removed_document_is_published_again(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduling, "LOOK_EVERY", 0.05)
    ran: list[int] = []
    app.schedule(1)(app.task("work")(lambda: ran.append(1)))
    worker = Worker(app)
    running = asyncio.create_task(worker.run())
    await until(lambda: ran)
    await app.pause_schedule("work", by="olga")
    broker = app.runtime.broker()
    await broker.put("schedule/work", None)
    async with asyncio.timeout(20):
        while not await app.schedules():  # noqa: ASYNC110 - the worker makes it true
            await asyncio.sleep(0.01)
    worker.stop()
    await running

    assert [info.status for info in await app.schedules()] == ["active"]


class Away(MemoryStore):
    """Cannot be reached the first few times that schedules are looked at."""

    left = 3

    async def documents(self, prefix: str) -> Any:
        if prefix == "schedule/" and Away.left:
            Away.left -= 1
            raise StoreUnavailable("away")
        return await super().documents(prefix)


async def test_a_store_that_was_away_is_looked_at_again(app: App, caplog: pytest.LogCaptureFixture) -> None:
    def away(url: str, clock: Clock) -> Away:
        return Away(clock)

    app.runtime.open_store = away
    ran: list[int] = []
    app.schedule(1)(app.task("work")(lambda: ran.append(1)))
    worker = Worker(app)
    running = asyncio.create_task(worker.run())
    await until(lambda: ran)
    worker.stop()
    await running

    assert caplog.text.count("schedules will be looked at again: away") == 3


async def test_a_refusal_is_told_and_does_not_end_the_worker(
    app: App, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.schedule(1, params={"text": "x" * 70_000})(app.task("work")(lambda text: None))
    worker = Worker(app)
    with caplog.at_level(logging.ERROR):
        running = asyncio.create_task(worker.run())
        await until(lambda: "schedules cannot be looked after" in caplog.text)
    job = await app.enqueue("work", {"text": ""})
    assert (await app.wait(job.id, 10)).status == "completed"
    worker.stop()
    await running


def test_sync_twin() -> None:
    app = App("memory://")
    app.schedule(60)(app.task("work")(lambda: None))

    async def publish() -> Ticked:
        await app.runtime.broker().publish(app.plans)
        return await app.runtime.broker().tick(["work"])

    with app.sync as sync:
        assert app.runtime.run(publish()).unknown == ()
        assert [info.name for info in sync.schedules()] == ["work"]
        assert sync.pause_schedule("work").status == "paused"
        assert sync.resume_schedule("work").status == "active"
        assert sync.run_schedule("work").task == "work"
