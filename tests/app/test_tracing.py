"""The trace context: asked of whoever enqueues, stored with the job, and read by whoever runs it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import pytest

import dibs
from dibs import App, NewJob
from dibs.testing import drain

span: ContextVar[str | None] = ContextVar("span", default=None)


def inject() -> dict[str, str] | None:
    value = span.get()
    return None if value is None else {"traceparent": value}


def echo(app: App) -> dibs.Task[[], Any]:
    @app.task
    async def echo() -> dict[str, str]:
        return dibs.current().job.trace

    return echo


async def test_each_way_to_enqueue_takes_the_callers_trace_along(app: App) -> None:
    app.trace_context(inject)
    task = echo(app)
    assert (await task.enqueue()).trace == {}
    span.set("one")
    assert (await task.enqueue()).trace == {"traceparent": "one"}
    assert (await app.enqueue("other")).trace == {"traceparent": "one"}
    own = NewJob("other", trace={"mine": "own"})
    jobs = await app.enqueue_many([task.job(), own])
    assert [job.trace for job in jobs] == [{"traceparent": "one"}, {"mine": "own"}]
    async with app.batch(on_end=NewJob("echo")) as batch:
        await batch.add([task.job()])
    span.set(None)
    ran = await drain(app)
    assert [job.result for job in ran] == [{}] + [{"traceparent": "one"}] * 4
    assert [job.trace for job in (await app.find(batch_id=batch.id)).items] == [{"traceparent": "one"}]


def test_a_sync_call_has_its_callers_trace(url: str) -> None:
    app = App(url)
    app.trace_context(inject)
    task = echo(app)
    token = span.set("of the thread")
    try:
        assert task.sync.enqueue().trace == {"traceparent": "of the thread"}
        assert app.sync.enqueue("other").trace == {"traceparent": "of the thread"}
    finally:
        span.reset(token)
        app.sync.close()


async def test_the_same_key_with_another_trace_is_the_same_job(app: App) -> None:
    app.trace_context(inject)
    task = echo(app)
    span.set("first")
    first = await task.options(idempotency_key="k").enqueue()
    span.set("second")
    second = await task.options(idempotency_key="k").enqueue()
    assert (second.id, second.was_duplicate, second.trace) == (first.id, True, {"traceparent": "first"})


async def test_what_is_no_trace_is_refused_and_nothing_is_enqueued(app: App) -> None:
    @app.trace_context
    def nonsense() -> Any:
        return {"traceparent": 5}

    with pytest.raises(dibs.InvalidJob, match="traceparent"):
        await app.enqueue("other")
    assert (await app.counts()).pending == 0


async def later() -> None: ...


def with_an_argument(job: Any) -> None: ...


@pytest.mark.parametrize("function", [None, later, with_an_argument])
def test_what_cannot_say_it_is_refused_at_once(function: Any) -> None:
    with pytest.raises(dibs.InvalidRequest) as error:
        App("memory://").trace_context(function)
    assert [problem.field for problem in error.value.problems] == ["trace_context"]


def test_there_is_one_of_them() -> None:
    app = App("memory://")
    app.trace_context(inject)
    with pytest.raises(dibs.InvalidRequest, match="already"):
        app.trace_context(inject)
