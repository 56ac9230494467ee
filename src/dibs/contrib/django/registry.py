"""The tasks that the project's own modules define. No others ever run: a job's name is looked up, and not imported."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

from django.utils.module_loading import autodiscover_modules

from dibs.domain.checks import check_defaults, check_tags
from dibs.domain.errors import InvalidRequest, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dibs.domain.job import Retention
    from dibs.domain.retry import Backoff, Duration

F = TypeVar("F", bound="Callable[..., Any]")

MODULE = "tasks"
"""The module of each installed app that workers import."""

_OPTIONS = "__dibs__"


class JobOptions(TypedDict, total=False):
    """What can be said of a task's jobs beside what Django's own ``@task`` says."""

    max_attempts: int
    retry: Backoff
    timeout: Duration
    lease: Duration
    retention: Retention | Duration
    unique: bool
    tags: Sequence[str]


def job_options(**options: Unpack[JobOptions]) -> Callable[[F], F]:
    """Say how often, how long and how far apart a task's jobs are tried: ``@task`` above, ``@job_options(…)`` below."""
    given: dict[str, Any] = dict(options)
    known = JobOptions.__annotations__
    problems = [
        Problem(field, f"is not an option; there are {', '.join(known)}") for field in given if field not in known
    ]
    problems += check_defaults(given) + check_tags(given.get("tags", ()))
    if not isinstance(given.get("unique", False), bool):
        problems.append(Problem("unique", "must be true or false"))
    if problems:
        raise InvalidRequest(problems)

    def mark(function: F) -> F:
        setattr(function, _OPTIONS, given)
        return function

    return mark


def options_of(task: Any) -> Mapping[str, Any]:
    """Read what ``job_options`` said of a task."""
    options: Mapping[str, Any] = getattr(task.func, _OPTIONS, {})
    return options


class Registry:
    """Tasks by the name that their jobs carry: the module and the function."""

    def __init__(self) -> None:
        self._tasks: dict[str, Any] = {}

    def add(self, task: Any) -> None:
        """Take in a task as it is defined; a copy of it, by ``task.using(…)``, is the same task."""
        known = self._tasks.get(task.module_path)
        if known is None or known.func is not task.func:
            self._tasks[task.module_path] = task

    def all(self) -> list[Any]:
        """List those that are defined by now."""
        return list(self._tasks.values())

    def find(self, name: str, imports: Iterable[str] = ()) -> Any | None:
        """Find a task by its name, among those that workers know; none if there is no such task."""
        if name not in self._tasks:
            self.discover(imports)
        return self._tasks.get(name)

    def discover(self, imports: Iterable[str] = ()) -> None:
        """Import what defines tasks: the module ``tasks`` of each installed app, and those that the settings name."""
        autodiscover_modules(MODULE)
        for module in imports:
            import_module(module)


registry = Registry()
