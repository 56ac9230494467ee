"""Django's tasks on dibs: each promise of Django's interface, with a worker of dibs's."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import override_settings
from django.utils import timezone

from dibs import Call, Claim, InvalidRequest, Status, Worker
from dibs.contrib.django import DibsBackend, job_options
from dibs.contrib.django.interface import (
    InvalidTask,
    TaskResultDoesNotExist,
    task_backends,
    task_enqueued,
    task_finished,
    task_started,
)
from tests.contrib import work as tasks_of_tests
from tests.contrib.conftest import tasks
from tests.contrib.work import Refused, add, any_names, double, never, odd, second_time, seen, snooze

Work = Callable[[], None]


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    seen.clear()


def test_from_ready_to_successful(backend: DibsBackend, work: Work) -> None:
    before = timezone.now() - timedelta(seconds=1)
    result = add.using(priority=7, queue_name="sums").enqueue(1, b=2)
    assert (result.status, result.args, result.kwargs, result.backend) == ("READY", [1], {"b": 2}, "default")
    assert (result.attempts, result.errors, result.worker_ids) == (0, [], [])
    assert (result.started_at, result.last_attempted_at, result.finished_at) == (None, None, None)
    assert (result.task.priority, result.task.queue_name, result.task.run_after) == (7, "sums", None)
    with pytest.raises(ValueError, match="not finished"):
        _ = result.return_value

    work()
    result.refresh()
    assert (result.status, result.return_value, result.is_finished) == ("SUCCESSFUL", 3, True)
    assert (result.attempts, result.worker_ids, result.errors) == (1, ["w"], [])
    assert before < result.enqueued_at <= result.started_at <= result.finished_at
    assert result.last_attempted_at == result.started_at
    again = add.get_result(result.id)
    assert (again.task.queue_name, again.task.priority, again.args, again.kwargs) == ("sums", 7, [1], {"b": 2})
    with pytest.raises(Exception, match="does not match"):
        double.get_result(result.id)


async def test_the_same_on_a_loop(backend: DibsBackend) -> None:
    first, second = await double.aenqueue(4), await add.aenqueue(1, 1)
    await Worker(backend.app).run(until_idle=True)
    await first.arefresh()
    assert first.return_value == 8
    assert (await add.aget_result(second.id)).return_value == 2
    with pytest.raises(TaskResultDoesNotExist):
        await backend.aget_result("none")


def test_each_attempt_has_its_worker_and_its_error(backend: DibsBackend, work: Work) -> None:
    result = second_time.enqueue("it")
    queue = backend.app.sync
    claim = queue.claim("first", tasks=[second_time.module_path])
    assert claim is not None
    result.refresh()
    assert (result.status, result.worker_ids, result.errors) == ("RUNNING", ["first"], [])
    claim.fail(Refused("by hand"))
    result.refresh()
    assert (result.status, result.attempts, result.finished_at) == ("READY", 1, None)
    assert (result.errors[0].exception_class, "Refused: by hand" in result.errors[0].traceback) == (Refused, True)
    work()
    result.refresh()
    assert (result.status, result.return_value) == ("SUCCESSFUL", ["it", 2, True])
    assert result.worker_ids == ["first", "w"]
    assert result.started_at < result.last_attempted_at


def test_what_fails_for_good_says_so_by_its_class(backend: DibsBackend, work: Work) -> None:
    result, other = never.enqueue(), second_time.using(priority=1).enqueue("shown")
    work()
    result.refresh()
    assert (result.status, result.attempts, result.worker_ids) == ("FAILED", 2, ["w", "w"])
    assert [error.exception_class for error in result.errors] == [ValueError, ValueError]
    assert "attempt 1" in result.errors[0].traceback
    assert result.errors[1].traceback.startswith("Traceback")
    assert 'raise ValueError(f"attempt' in result.errors[1].traceback
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value
    other.refresh()
    assert other.status == "SUCCESSFUL"
    assert [error.exception_class for error in other.errors] == [Refused]


def test_an_error_s_class_is_looked_up_and_not_imported(backend: DibsBackend) -> None:
    result = add.using(queue_name="q").enqueue(1)
    claim = backend.app.sync.claim(queues=["q"])
    assert claim is not None
    from dibs import Error

    claim.fail(Error("boom", "tests.contrib.never_imported.Boom"), retryable=False)
    result.refresh()
    [error] = result.errors
    assert error.exception_class_path == "tests.contrib.never_imported.Boom"
    with pytest.raises(ValueError, match="imported here"):
        _ = error.exception_class


def test_what_is_returned_must_be_json_and_is_not_tried_again(backend: DibsBackend, work: Work) -> None:
    result = odd.enqueue()
    work()
    result.refresh()
    assert (result.status, seen, result.attempts) == ("FAILED", ["odd"], 1)
    assert "no JSON" in result.errors[0].traceback


def test_later_and_by_priority(backend: DibsBackend, work: Work) -> None:
    later = timezone.now() + timedelta(hours=1)
    waits = add.using(run_after=later).enqueue(0)
    for priority in (-100, 0, 100):
        add.using(priority=priority).enqueue(priority)
    asyncio.run(Worker(backend.app, concurrency=1, prefetch=0).run(until_idle=True))
    assert seen == [("add", 100, 0), ("add", 0, 0), ("add", -100, 0)]
    waits.refresh()
    assert (waits.status, backend.get_result(waits.id).task.run_after) == ("READY", later)


def test_without_time_zones(backend: DibsBackend) -> None:
    with override_settings(USE_TZ=False, TIME_ZONE="Asia/Tokyo"):
        later = timezone.now() + timedelta(hours=1)
        result = add.using(run_after=later).enqueue(1)
        assert timezone.is_naive(result.enqueued_at)
        assert abs(result.enqueued_at - timezone.now()) < timedelta(minutes=1)
        assert backend.get_result(result.id).task.run_after == later
    job = backend.app.sync.get(result.id)
    assert job is not None
    assert job.scheduled_at is not None
    assert timedelta(minutes=59) < job.scheduled_at - datetime.now(UTC) < timedelta(minutes=61)


@pytest.mark.parametrize(
    ("args", "kwargs", "told"),
    [
        ((), {}, "missing a required argument: 'a'"),
        ((1, 2, 3), {}, "too many positional"),
        ((1,), {"c": 1}, "unexpected keyword argument 'c'"),
        ((object(),), {}, "Unsupported type"),
    ],
)
def test_a_call_that_cannot_be_made_is_refused_at_once(
    backend: DibsBackend, args: tuple[Any, ...], kwargs: dict[str, Any], told: str
) -> None:
    with pytest.raises(TypeError, match=told):
        add.enqueue(*args, **kwargs)
    assert backend.app.sync.counts().pending == 0


def test_params_that_do_not_fit_are_a_dead_letter_at_once(backend: DibsBackend, work: Work) -> None:
    """Whoever enqueues by name, or before the function has changed."""
    queue, name = backend.app.sync, add.module_path
    bad: list[Any] = [{"args": [], "kwargs": {}}, {"args": 1}, {"kwargs": 1}, {"a": 1}, [1]]
    jobs = [queue.enqueue(name, params) for params in bad]
    empty = queue.enqueue(double.module_path)
    work()
    for job in [*jobs, empty]:
        ended = queue.get(job.id)
        assert ended is not None
        assert ended.error is not None
        assert (ended.status, ended.attempts, ended.error.code) == (Status.FAILED, 1, "invalid_params")
        result = backend.get_result(job.id)
        assert (result.status, len(result.errors)) == ("FAILED", 1)
    assert seen == []


@pytest.mark.parametrize("name", ["tests.contrib.never_imported.boom", "os.system", "tests.contrib.work.Refused"])
def test_no_job_makes_a_worker_import_or_call_anything_else(backend: DibsBackend, work: Work, name: str) -> None:
    job = backend.app.sync.enqueue(name, {"args": ["true"], "kwargs": {}})
    add.enqueue(1)
    work()
    assert seen == [("add", 1, 0)]
    with pytest.raises(TaskResultDoesNotExist, match="no task that is known"):
        backend.get_result(job.id)
    left = backend.app.sync.get(job.id)
    assert left is not None
    assert left.status is Status.PENDING  # for a worker that knows it: one of a newer version, or of another program
    assert "tests.contrib.never_imported" not in sys.modules


@pytest.mark.parametrize("id", ["none", "", "no id at all", "x" * 200])
def test_a_result_that_is_not_there(backend: DibsBackend, id: str) -> None:
    with pytest.raises(TaskResultDoesNotExist):
        backend.get_result(id)


def test_cancelled_given_back_redriven_and_expired(backend: DibsBackend, work: Work) -> None:
    queue = backend.app.sync
    result = add.enqueue(1)
    claim = queue.claim("gives-back")
    assert claim is not None
    claim.release()
    result.refresh()
    assert (result.status, result.worker_ids, result.started_at) == ("READY", [], None)

    queue.cancel(result.id)
    result.refresh()
    assert (result.status, [error.exception_class for error in result.errors]) == ("FAILED", [asyncio.CancelledError])

    queue.redrive(result.id)
    result.refresh()
    assert (result.status, result.errors, result.worker_ids) == ("READY", [], [])
    assert queue.claim("dies", lease=0.01) is not None
    time.sleep(0.02)
    while (claim := queue.claim("lives")) is None:
        time.sleep(0.01)
    result.refresh()
    assert (result.status, result.worker_ids) == ("RUNNING", ["dies", "lives"])
    assert [error.exception_class.__name__ for error in result.errors] == ["LeaseLost"]
    claim.complete(5)
    result.refresh()
    assert (result.status, result.return_value) == ("SUCCESSFUL", 5)


def test_a_task_may_raise_what_any_handler_may(backend: DibsBackend, work: Work) -> None:
    result = snooze.enqueue()
    work()
    result.refresh()
    assert (result.status, result.attempts, seen) == ("SUCCESSFUL", 1, ["snooze"] * 3)


def test_arguments_may_have_any_names(backend: DibsBackend, work: Work) -> None:
    names = {"args": 2, "kwargs": 3, "task": 4, "context": 5}
    result = any_names.enqueue(**names)
    work()
    result.refresh()
    assert result.return_value == names


async def test_middleware_sees_what_a_task_raises_and_returns(backend: DibsBackend) -> None:
    heard: list[Any] = []

    @backend.app.middleware
    async def listen(claim: Claim, call: Call) -> Any:
        try:
            heard.append(await call())
        except Exception as error:
            heard.append((claim.task, type(error)))
            raise
        return heard[-1]

    await add.aenqueue(1)
    result = await second_time.aenqueue("it")
    await Worker(backend.app, concurrency=1).run(until_idle=True)
    assert heard == [1, (second_time.module_path, Refused), ["it", 2, True]]
    await result.arefresh()
    assert [error.exception_class for error in result.errors] == [Refused]


@pytest.fixture
def signals() -> Iterator[list[tuple[str, str, int]]]:
    heard: list[tuple[str, str, int]] = []

    def hear(name: str) -> Callable[..., None]:
        def receiver(*, sender: type, task_result: Any, **_: Any) -> None:
            assert sender is DibsBackend
            heard.append((name, str(task_result.status), task_result.attempts))
            raise RuntimeError("a receiver's own trouble is not the job's")

        return receiver

    receivers = [(task_enqueued, hear("enqueued")), (task_started, hear("started")), (task_finished, hear("finished"))]
    for signal, receiver in receivers:
        signal.connect(receiver)
    yield heard
    for signal, receiver in receivers:
        signal.disconnect(receiver)


@pytest.mark.filterwarnings("default")
async def test_signals(backend: DibsBackend, signals: list[tuple[str, str, int]]) -> None:
    await add.aenqueue(1)
    await Worker(backend.app).run(until_idle=True)
    assert signals == [("enqueued", "READY", 0), ("started", "RUNNING", 1), ("finished", "SUCCESSFUL", 1)]
    signals.clear()
    await never.aenqueue()
    await Worker(backend.app).run(until_idle=True)
    assert signals == [
        ("enqueued", "READY", 0),
        ("started", "RUNNING", 1),  # it is to be tried again: that is no end
        ("started", "RUNNING", 2),
        ("finished", "FAILED", 2),
    ]
    assert (await backend.app.counts()).failed == 1


def test_options_of_a_task_s_jobs(backend: DibsBackend) -> None:
    job = backend.app.sync.get(never.enqueue().id)
    assert job is not None
    assert (job.max_attempts, job.terms.retry) == (2, tasks_of_tests.AT_ONCE)
    with pytest.raises(InvalidRequest) as refused:
        job_options(max_attempts=0, retries=3, unique=1)  # type: ignore[call-arg, arg-type]
    assert set(refused.value.fields) == {"max_attempts", "retries", "unique"}


def test_names_that_a_queue_cannot_have_are_refused(backend: DibsBackend) -> None:
    with pytest.raises(InvalidTask, match="queue_name: must be 1 to 128"):
        add.using(queue_name="to the moon")
    with pytest.raises(InvalidTask, match="priority"):
        add.using(priority=101)


def test_a_backend_of_each_thread_and_one_queue(backend: DibsBackend) -> None:
    apps: list[Any] = []
    thread = threading.Thread(target=lambda: apps.append(task_backends["default"].app))
    thread.start()
    thread.join()
    assert apps == [backend.app]


def test_two_backends(work: Work, backend: DibsBackend) -> None:
    """What is sent to another backend of dibs's is run by its workers, who know the same tasks."""
    with override_settings(TASKS={**tasks(store="memory://"), "fast": tasks(store="memory://")["default"]}):
        slow, fast = task_backends["default"], task_backends["fast"]
        result = add.using(backend="fast").enqueue(1)
        assert (slow.app.sync.counts().pending, fast.app.sync.counts().pending) == (0, 1)
        asyncio.run(Worker(fast.app).run(until_idle=True))
        result.refresh()
        assert (result.return_value, result.backend, result.task.backend) == (1, "fast", "fast")
        again = fast.get_result(result.id)
        again.refresh()
        assert (again.backend, again.task.backend) == ("fast", "fast")


def test_what_the_settings_no_longer_allow_can_still_be_read(backend: DibsBackend, url: str) -> None:
    result = add.using(queue_name="gone").enqueue(1)
    backend.queues = {"default"}
    assert backend.get_result(result.id).task.queue_name == "default"
    with pytest.raises(InvalidTask, match="Queue 'gone' is not valid"):
        add.using(queue_name="gone")
