"""Tasks: bound by name, merged with their options, known by one name each."""

from typing import Any

import pytest

import dibs
from dibs import App, InvalidJob, InvalidRequest, Tasks


@pytest.fixture
def tasks() -> Tasks:
    return Tasks()


async def test_task_enqueue_binds_arguments_by_name(app: App) -> None:
    @app.task
    async def send(to: str, subject: str = "hi", *, copies: int = 1) -> None: ...

    assert (await send.enqueue("a")).params == {"to": "a"}, "defaults are not stored: they may change while jobs wait"
    assert (await send.enqueue("a", "b", copies=2)).params == {"to": "a", "subject": "b", "copies": 2}
    job = await send.enqueue(to="a")
    assert (job.task, job.queue) == ("send", "default")


async def test_task_positional_only_and_more_names(app: App) -> None:
    @app.task("mixed")
    def f(a: int, /, b: int = 2, **more: int) -> tuple[Any, ...]:
        return a, b, more

    job = await f.enqueue(1, c=3)
    assert job.params == {"a": 1, "c": 3}
    args, kwargs = f.arguments(job.params)
    assert (args, kwargs) == ((1,), {"c": 3})
    assert f(*args, **kwargs) == (1, 2, {"c": 3})
    with pytest.raises(InvalidJob) as caught:
        await f.enqueue(1, a=2)
    assert caught.value.fields == ("a",)


def test_task_that_takes_any_number_of_arguments_is_refused(tasks: Tasks) -> None:
    with pytest.raises(InvalidRequest, match="rows: cannot be bound by name"):

        @tasks.task
        def f(*rows: int) -> None: ...

    assert tasks.by_name == {}


@pytest.mark.parametrize(
    ("args", "kwargs", "field"),
    [
        ((), {}, "to"),
        (("a",), {"subjetc": "b"}, "subjetc"),
        (("a",), {"to": "b"}, "to"),
        (("a", "b", "c"), {}, "arguments"),
    ],
)
async def test_task_wrong_arguments_name_the_parameter(
    app: App, args: tuple[Any, ...], kwargs: dict[str, Any], field: str
) -> None:
    @app.task
    def send(to: str, subject: str = "") -> None: ...

    for call in (send.job, send.enqueue):
        with pytest.raises(InvalidJob) as caught:
            await call(*args, **kwargs)  # type: ignore[misc]
        assert caught.value.fields == (field,)
    with pytest.raises(InvalidJob):
        send.arguments({"nothing": 1})
    with pytest.raises(InvalidJob, match="params"):
        send.arguments([1])
    assert (await app.counts()).unfinished == 0


async def test_task_options_are_merged_call_first(app: App) -> None:
    @app.task(queue="mail", max_attempts=5, tags=["t"], unique=True, retry=dibs.Backoff(base=2, cap=600))
    def send(to: str) -> None: ...

    job = await send.enqueue("a")
    assert (job.queue, job.max_attempts, job.tags, job.terms.retry.base) == ("mail", 5, ("t",), 2)
    assert (await send.enqueue("a")).was_duplicate
    assert not (await send.options(unique=False).enqueue("a")).was_duplicate
    keyed = await send.options(unique_key="k", queue="other").enqueue("a")
    assert (keyed.unique_key, keyed.queue) == ("k", "other")
    later = send.options(delay=60).options(scheduled_at=None, priority=3)
    assert (await later.options(unique=False).enqueue("b")).priority == 3
    assert (await app.counts()).scheduled == 1


async def test_task_job_for_enqueue_many(app: App) -> None:
    @app.task(queue="mail")
    def send(to: str) -> None: ...

    jobs = await app.enqueue_many([send.job("a"), send.options(priority=5).job(to="b")])
    assert [(job.task, job.queue, job.params["to"], job.priority) for job in jobs] == [
        ("send", "mail", "a", 0),
        ("send", "mail", "b", 5),
    ]
    with pytest.raises(InvalidJob, match="connection"):
        send.options(connection=object()).job("a")


async def test_task_enqueue_on_a_connection_where_there_are_none() -> None:
    async with App("memory://") as app:
        task = app.task(_named)
        with pytest.raises(dibs.NotSupported):
            await task.options(connection=object()).enqueue()
        with pytest.raises(dibs.NotSupported):
            await app.enqueue("t", connection=object())


def _named() -> str:
    """Say something."""
    return "done"


def test_task_is_its_function(tasks: Tasks) -> None:
    task = tasks.task(_named)
    assert task() == "done"
    assert task.function is _named
    assert (task.name, task.__doc__, repr(task)) == ("_named", "Say something.", "<Task '_named'>")


async def test_tasks_are_enqueued_once_an_app_includes_them(app: App, tasks: Tasks) -> None:
    @tasks.task(name="mail.send")
    def send(to: str) -> None: ...

    bound = send.options(priority=1)
    with pytest.raises(dibs.WrongState, match="include"):
        await bound.enqueue("a")
    with pytest.raises(dibs.WrongState, match="include"):
        _ = send.sync
    app.include(tasks)
    assert (await bound.enqueue("a")).task == "mail.send"
    tasks.task(_named)
    assert set(app.tasks) == {"mail.send", "_named"}
    with pytest.raises(InvalidRequest, match="already"):
        app.include(tasks)


def test_a_name_is_given_once(tasks: Tasks) -> None:
    app = App("memory://")
    app.task("a")(_named)
    with pytest.raises(InvalidRequest, match="'a' already"):
        app.task("a")(_named)
    tasks.task("b")(_named)
    tasks.task("a")(_named)
    with pytest.raises(InvalidRequest, match="these names already: a"):
        app.include(tasks)
    assert set(app.tasks) == {"a"}, "all or none"
    other = Tasks()
    app.include(other)
    with pytest.raises(InvalidRequest, match="'a' already"):
        other.task("a")(_named)
    assert other.by_name == {}


def test_a_task_is_checked_when_it_is_made(tasks: Tasks) -> None:
    with pytest.raises(InvalidRequest) as caught:
        tasks.task("../x", max_attempts=0, queue="", tags="no", colour="red")(_named)  # type: ignore[call-overload]
    assert caught.value.fields == ("name", "colour", "max_attempts", "queue", "tags")
    with pytest.raises(InvalidRequest, match="name"):
        tasks.task(lambda: None)
    with pytest.raises(InvalidRequest, match="function"):
        tasks.task("x")(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="signature"):
        tasks.task("x")(type)
    assert tasks.by_name == {}
