"""How a worker runs a task of Django's: with its connections looked after, its context, and its signals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import iscoroutinefunction, signature
from typing import Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.db import close_old_connections, connections, reset_queries
from django.utils import timezone

from dibs.app import App
from dibs.claim import Claim, current
from dibs.contrib.django.interface import (
    TaskContext,
    TaskResult,
    TaskResultStatus,
    normalize_json,
    task_finished,
    task_started,
)
from dibs.contrib.django.results import error_of, kind_of, needs_log, result_of
from dibs.domain.errors import InvalidJob, Problem
from dibs.domain.failure import KIND, describe
from dibs.domain.signals import Fail, Snooze
from dibs.task import Task, Tasks

_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"args": {"type": "array"}, "kwargs": {"type": "object"}},
    "additionalProperties": False,
}


def handlers(alias: str, sender: type, app: App) -> Callable[[Sequence[Any]], dict[str, Task[..., Any]]]:
    """Make what gives the handlers of Django's tasks, each made once."""
    made: dict[str, Handler] = {}
    registry = Tasks(app)

    def give(tasks: Sequence[Any]) -> dict[str, Task[..., Any]]:
        for task in tasks:
            known = made.get(task.module_path)
            if known is None or known.task.func is not task.func:
                made[task.module_path] = Handler(task, alias, sender, app, registry)
        return dict(made)

    return give


class Handler(Task[..., Any]):
    """A task of Django's as one of dibs. Its jobs have ``args`` and ``kwargs``, as Django tells them apart."""

    def __init__(self, task: Any, alias: str, sender: type, app: App, registry: Tasks) -> None:
        self.task = task
        self._alias = alias
        self._sender = sender
        self._queue = app
        run = self._on_loop if iscoroutinefunction(task.func) else self._in_thread
        super().__init__(run, task.module_path, {}, registry)

    @property
    def schema(self) -> dict[str, Any]:
        """What is told of its params: that there are arguments."""
        return _SCHEMA

    def arguments(self, params: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Take a job's params apart; refuse those that the function does not take."""
        params = {} if params is None else params
        if not isinstance(params, Mapping) or not params.keys() <= {"args", "kwargs"}:
            raise InvalidJob([Problem("params", "must be an object with args and kwargs, and nothing else")])
        args, kwargs = params.get("args", []), params.get("kwargs", {})
        if not isinstance(args, list):
            raise InvalidJob([Problem("params.args", "must be an array")])
        if not isinstance(kwargs, Mapping):
            raise InvalidJob([Problem("params.kwargs", "must be an object")])
        try:
            given = [None, *args] if self.task.takes_context else args
            signature(self.task.func, follow_wrapped=False).bind(*given, **kwargs)
        except TypeError as error:
            raise InvalidJob([Problem("params", f"{error} of task {self.name!r}")]) from None
        return tuple(args), dict(kwargs)

    def _in_thread(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run a plain function, with a connection to the database that is not stale, nor left open for nothing."""
        claim = current()
        reset_queries()  # with DEBUG they are kept, for each thread, as for one request
        close_old_connections()
        try:
            log = self._queue.sync.log(claim.id) if needs_log(claim.job) and self._queue.runtime.clock.threads else []
            result = result_of(self._alias, self.task, claim.job, log)
            task_started.send_robust(self._sender, task_result=result)
            try:
                with _told(claim, result):
                    value = self.task.func(*self._with_context(result, args), **kwargs)
                    return _returned(result, value)
            finally:
                if result.is_finished:
                    task_finished.send_robust(self._sender, task_result=result)
        finally:
            close_old_connections()

    async def _on_loop(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run a coroutine. What it calls by ``sync_to_async`` has a thread of its own, as for a request of Django's."""
        claim = current()
        async with ThreadSensitiveContext():
            try:
                log = await self._queue.log(claim.id) if needs_log(claim.job) else []
                result = result_of(self._alias, self.task, claim.job, log)
                await task_started.asend_robust(self._sender, task_result=result)
                try:
                    with _told(claim, result):
                        value = await self.task.func(*self._with_context(result, args), **kwargs)
                        return _returned(result, value)
                finally:
                    if result.is_finished:
                        await task_finished.asend_robust(self._sender, task_result=result)
            finally:
                await sync_to_async(connections.close_all)()  # they belong to that thread, which ends here

    def _with_context(self, result: TaskResult, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (TaskContext(task_result=result), *args) if self.task.takes_context else args


@contextmanager
def _told(claim: Claim, result: TaskResult) -> Iterator[None]:
    """Have what is raised be kept by its class with its module, which Django asks for; and note it if it is the end."""
    try:
        yield
    except Snooze:
        raise
    except Exception as error:
        vars(error)[KIND] = kind_of(error)
        if isinstance(error, Fail) or claim.attempt >= claim.job.max_attempts:
            result.errors.append(error_of(describe(error)))
            _finish(result, TaskResultStatus.FAILED)
        raise


def _returned(result: TaskResult, value: Any) -> Any:
    try:
        value = normalize_json(value)
    except (TypeError, ValueError) as error:
        # To run it again would give nothing else, and do its work twice.
        raise Fail(f"what it returned is no JSON: {error}", code="invalid") from error
    object.__setattr__(result, "_return_value", value)
    _finish(result, TaskResultStatus.SUCCESSFUL)
    return value


def _finish(result: TaskResult, status: TaskResultStatus) -> None:
    object.__setattr__(result, "finished_at", timezone.now())
    object.__setattr__(result, "status", status)
