"""Schedules as users write them: ``@app.schedule("*/5 * * * *")`` above a task, or a function that becomes one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.domain.errors import InvalidRequest
from dibs.domain.schedule import Plan, arguments, catch_up_of, check_plan
from dibs.domain.schedule_times import timing_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dibs.domain.job import Json
    from dibs.domain.retry import Duration
    from dibs.domain.schedule import Policy
    from dibs.task import P, R, Task, Tasks


class Scheduler:
    """Puts what it decorates on a schedule."""

    def __init__(
        self,
        tasks: Tasks,
        cron_or_interval: str | Duration,
        *,
        tz: str = "UTC",
        catch_up: Policy = "last",
        name: str | None = None,
        params: Mapping[str, Json] | None = None,
    ) -> None:
        self._tasks = tasks
        self._timing = timing_of(cron_or_interval, tz)
        self._catch_up = catch_up_of(catch_up)
        self._name = name
        self._params: Mapping[str, Any] = arguments(params)

    def __call__(self, function: Callable[P, R]) -> Task[P, R]:
        """Take a task, or make one of a function; give the task."""
        from dibs.task import Task

        task: Task[P, R] = function if isinstance(function, Task) else self._tasks.task(function)
        job = task.job(**self._params)  # type: ignore[call-arg]  # bound and checked by the task's signature
        plan = Plan(task.name if self._name is None else self._name, self._timing, job, self._catch_up)
        if problems := check_plan(plan):
            raise InvalidRequest(problems)
        self._tasks.add_plan(plan)
        return task
