"""The backend that ``TASKS`` names: Django's tasks are jobs of dibs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from inspect import signature
from threading import Lock
from typing import Any

from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.db import connections
from django.utils import timezone

from dibs.app import App
from dibs.broker.connect import is_server, open_store
from dibs.contrib.django.handling import handlers
from dibs.contrib.django.interface import (
    BaseTaskBackend,
    InvalidTask,
    TaskResult,
    TaskResultDoesNotExist,
    normalize_json,
    task_backends,
    task_enqueued,
)
from dibs.contrib.django.options import Options, read, shared_file
from dibs.contrib.django.registry import MODULE, options_of, registry
from dibs.contrib.django.results import needs_log, result_of
from dibs.domain.checks import check_name
from dibs.domain.errors import DibsError, Invalid, InvalidRequest, Problem
from dibs.domain.job import Event, Job
from dibs.domain.newjob import NewJob
from dibs.task import Task


class TasksApp(App):
    """A queue whose tasks are those that Django's ``@task`` has made, beside any of its own."""

    def __init__(self, backend: DibsBackend, options: Options) -> None:
        super().__init__(options.store, api_key=options.api_key, **options.settings)
        self._handlers = handlers(backend.alias, type(backend), self)

    @property
    def tasks(self) -> dict[str, Task[..., Any]]:
        """The tasks by name: all that are defined by now."""
        return {**self._handlers(registry.all()), **super().tasks}


class DibsBackend(BaseTaskBackend):  # type: ignore[misc]  # Django has no types
    """Puts Django's tasks into a queue of dibs; ``manage.py dibs_worker`` runs them.

    ``OPTIONS`` has ``store``, the URL of the queue, or ``database``, the name of a PostgreSQL database of Django's that
    has the jobs too: then a task that is enqueued within a transaction commits or vanishes with it. ``imports`` are
    modules that define tasks, beside the module ``tasks`` of each installed app. All else is a setting of ``dibs.App``.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    @property
    def app(self) -> TasksApp:
        """The queue itself, for all that Django has no word for: counts, dead letters, keys, batches."""
        return _apps.get(self)

    @property
    def read_options(self) -> Options:
        """What the settings say now: a test may name another database."""
        with _improper(self.alias):
            return read(self.options)

    @property
    def database(self) -> str | None:
        """The database of Django's whose transactions jobs are enqueued in."""
        return self.read_options.database

    # Tasks

    def validate_task(self, task: Any) -> None:
        """Check a task as it is defined, or changed by ``using``, and know it from then on."""
        super().validate_task(task)
        problems = check_name("the name", task.module_path) + check_name("queue_name", task.queue_name)
        if problems:
            raise InvalidTask(f"{task.module_path}: " + "; ".join(map(str, problems)))
        registry.add(task)

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Enqueue a call of the task; within a transaction of the database that has the jobs, as part of it."""
        new = self._job(task, args, kwargs)
        [job] = self.app.sync.enqueue_many([new], connection=self._connection())
        result = result_of(self.alias, task, job)
        task_enqueued.send_robust(type(self), task_result=result)
        return result

    async def aenqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Enqueue a call of the task."""
        if self.database is not None:  # its connection belongs to the thread of Django's sync calls
            return await super().aenqueue(task, args, kwargs)
        [job] = await self.app.enqueue_many([self._job(task, args, kwargs)])
        result = result_of(self.alias, task, job)
        await task_enqueued.asend_robust(type(self), task_result=result)
        return result

    def _job(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> NewJob:
        self.validate_task(task)
        given = [None, *args] if task.takes_context else args
        signature(task.func, follow_wrapped=False).bind(*given, **kwargs)  # a TypeError, as a call would raise it
        return NewJob(
            task.module_path,
            {"args": normalize_json(list(args)), "kwargs": normalize_json(dict(kwargs))},
            queue=task.queue_name,
            priority=task.priority,
            scheduled_at=_aware(task.run_after),
            **options_of(task),
        )

    def _connection(self) -> Any:
        """Give Django's own connection if it is within a transaction."""
        if self.database is None:
            return None
        connection = connections[self.database]
        return None if connection.get_autocommit() else connection.connection

    # Results

    def get_result(self, result_id: str) -> Any:
        """Read what became of a job; ``TaskResultDoesNotExist`` if there is none, or it is of no task of Django's."""
        queue = self.app.sync
        try:
            job = queue.get(result_id)
            log = queue.log(result_id) if job is not None and needs_log(job) else []
        except Invalid:
            job, log = None, []
        return self._result(result_id, job, log)

    async def aget_result(self, result_id: str) -> Any:
        """See ``get_result``."""
        try:
            job = await self.app.get(result_id)
            log = await self.app.log(result_id) if job is not None and needs_log(job) else []
        except Invalid:
            job, log = None, []
        return self._result(result_id, job, log)

    def _result(self, result_id: str, job: Job | None, log: Sequence[Event]) -> TaskResult:
        if job is None:
            raise TaskResultDoesNotExist(result_id)
        task = registry.find(job.task, self.read_options.imports)
        if task is None:
            raise TaskResultDoesNotExist(f"{result_id} is a job of {job.task!r}, which is no task that is known here")
        return result_of(self.alias, task, job, log)

    # Settings

    def check(self, **_: Any) -> Iterator[checks.CheckMessage]:
        """Say what is wrong with the settings, and which tasks no worker would find."""
        where = f"TASKS[{self.alias!r}]"
        for queue in sorted(map(str, self.queues)):
            for problem in check_name("QUEUES", queue):
                yield checks.Error(f"{where}['QUEUES'] has {queue!r}, which {problem.message}.", id="dibs.E001")
        try:
            options = read(self.options)
            app = _made(self, options)
        except InvalidRequest as error:
            for field, message in error.problems:
                yield checks.Error(f"{where}['OPTIONS'][{field!r}]: {message}.", id="dibs.E002")
            return
        try:
            if not is_server(app.url):
                open_store(app.url, app.runtime.clock)  # which connects to nothing yet
        except DibsError as error:
            yield checks.Error(f"{where}['OPTIONS']['store']: {error}", id="dibs.E003")
        if (alias := shared_file(app.url)) is not None:
            yield checks.Error(
                f"{where} has its jobs in the SQLite file of DATABASES[{alias!r}].",
                hint="Give them a file of their own: two SQLite libraries on one file break each other's locks.",
                id="dibs.E004",
            )
        yield from self._unfound(options)

    def _unfound(self, options: Options) -> Iterator[checks.CheckMessage]:
        """Find tasks that are defined where no worker looks: their jobs would wait for ever."""
        from django.apps import apps

        found = {f"{config.name}.{MODULE}" for config in apps.get_app_configs()} | set(options.imports)
        for task in registry.all():
            module = task.func.__module__
            if task.backend == self.alias and not any(f"{module}.".startswith(f"{home}.") for home in found):
                yield checks.Warning(
                    f"Workers do not import {module}, which defines the task {task.name}.",
                    hint=f"Move it to the module {MODULE!r} of an installed app, or name {module!r} in "
                    f"TASKS[{self.alias!r}]['OPTIONS']['imports'].",
                    id="dibs.W001",
                )


def dibs_backends() -> list[DibsBackend]:
    """List the backends of the settings that are of dibs."""
    return [backend for backend in task_backends.all() if isinstance(backend, DibsBackend)]


class _Apps:
    """One queue for each backend of a process: Django makes a backend for each thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._apps: dict[tuple[str, str | None], TasksApp] = {}

    def get(self, backend: DibsBackend) -> TasksApp:
        options = backend.read_options
        key = backend.alias, options.store
        app = self._apps.get(key)
        if app is None:
            with self._lock:
                app = self._apps.get(key)
                if app is None:
                    with _improper(backend.alias):
                        app = self._apps[key] = _made(backend, options)
        return app

    def forget(self) -> None:
        """Begin anew; what an app has opened goes with the last who holds it."""
        with self._lock:
            self._apps = {}


def _made(backend: DibsBackend, options: Options) -> TasksApp:
    try:
        return TasksApp(backend, options)
    except InvalidRequest as error:  # what an app calls its url is the store here
        renamed = {"url": "store"}
        raise InvalidRequest([Problem(renamed.get(field, field), told) for field, told in error.problems]) from None


@contextmanager
def _improper(alias: str) -> Iterator[None]:
    """Say what is wrong with the settings in the way that Django does."""
    try:
        yield
    except InvalidRequest as error:
        raise ImproperlyConfigured(f"TASKS[{alias!r}]['OPTIONS']: {error}") from None


_apps = _Apps()


def _settings_changed(*, setting: str, **_: Any) -> None:
    """Hear of a test that puts other settings in place."""
    if setting in {"TASKS", "DATABASES"}:
        _apps.forget()


setting_changed.connect(_settings_changed)


def _aware(time: datetime | None) -> datetime | None:
    return timezone.make_aware(time) if time is not None and timezone.is_naive(time) else time
