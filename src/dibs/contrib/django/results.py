"""A job as Django sees it: a ``TaskResult``."""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils import timezone

import dibs
from dibs.contrib.django.interface import InvalidTask, TaskError, TaskResult, TaskResultStatus
from dibs.domain.job import Error, Event, EventName, Job, Status, time_of

_STATUS = {
    Status.PENDING: TaskResultStatus.READY,
    Status.CLAIMED: TaskResultStatus.RUNNING,
    Status.COMPLETED: TaskResultStatus.SUCCESSFUL,
    Status.FAILED: TaskResultStatus.FAILED,
    Status.CANCELLED: TaskResultStatus.FAILED,  # Django has no word for it; the error says so
}
_FAILURES = frozenset({EventName.RETRIED, EventName.FAILED, EventName.EXPIRED})
_KINDS = {"lease_expired": "dibs.LeaseLost", "timeout": "builtins.TimeoutError"}
_CANCELLED = "asyncio.exceptions.CancelledError"


def needs_log(job: Job) -> bool:
    """Say whether what became of a job's claims is told by its log alone."""
    return job.fence > 1 or (job.fence == 1 and job.status is Status.CANCELLED)


def result_of(alias: str, task: Any, job: Job, log: Sequence[Event] = ()) -> Any:
    """Make the result of a job; ``log`` is what has happened to it, if it was claimed more than once."""
    params = job.params if isinstance(job.params, dict) else {}
    claims, errors = _history(log) if log else _of_one_claim(job)
    if job.error is not None and job.status is not Status.COMPLETED:
        errors[-1:] = [error_of(job.error)]
    if job.status is Status.CANCELLED:
        errors.append(KeptError(exception_class_path=_CANCELLED, traceback="the job was cancelled"))
    result = TaskResult(
        task=_as_enqueued(alias, task, job, log),
        id=job.id,
        status=_STATUS[job.status],
        enqueued_at=_time(job.created_us),
        started_at=_time(claims[0][1]) if claims else None,
        finished_at=_time(job.completed_us) if job.status.finished else None,
        last_attempted_at=_time(claims[-1][1]) if claims else None,
        args=params.get("args", []),
        kwargs=params.get("kwargs", {}),
        backend=alias,
        errors=errors,
        worker_ids=[worker for worker, _ in claims],
    )
    if job.status is Status.COMPLETED:
        object.__setattr__(result, "_return_value", job.result)
    return result


def _of_one_claim(job: Job) -> tuple[list[tuple[str, int]], list[TaskError]]:
    if job.fence == 0 or (job.status is Status.PENDING and job.attempts == 0):  # or it was given back
        return [], []
    return [(job.worker_id or "", job.claimed_us or 0)], []


def _history(log: Sequence[Event]) -> tuple[list[tuple[str, int]], list[TaskError]]:
    """Read who has claimed a job since it was last redriven, and when; and what went wrong each time."""
    claims: list[tuple[str, int]] = []
    errors: list[TaskError] = []
    for event in log:
        if event.event is EventName.CLAIMED:
            claims.append((event.worker_id or "", event.at_us))
        elif event.event is EventName.RELEASED and claims:
            claims.pop()  # it was given back, and does not count
        elif event.event is EventName.REDRIVEN:
            claims, errors = [], []
        elif event.event in _FAILURES:
            kind = event.note.partition(": ")[0]
            errors.append(KeptError(exception_class_path=class_path(kind), traceback=event.note))
    return claims, errors


def _as_enqueued(alias: str, task: Any, job: Job, log: Sequence[Event]) -> Any:
    """Give the task with what the job was enqueued with; as it is defined, if that is no longer allowed."""
    due_us = log[0].due_us if log else job.due_us if job.attempts == 0 else job.created_us
    run_after = _time(due_us) if due_us > job.created_us else None
    said = {"priority": job.priority, "queue_name": job.queue, "run_after": run_after}
    for changes in ({**said, "backend": alias}, {"backend": alias}):
        with suppress(InvalidTask):
            return task.using(**changes)
    return task


def error_of(error: Error) -> TaskError:
    """Make an error of Django's of what is kept of one."""
    told = error.traceback or f"{error.kind}: {error.message}"
    return KeptError(exception_class_path=class_path(error.kind, told), traceback=told)


@dataclass(frozen=True, kw_only=True)
class KeptError(TaskError):  # type: ignore[misc]  # Django has no types
    """An error that was read from the store: its class is looked up among what is imported, and nothing is imported."""

    @property
    def exception_class(self) -> type[BaseException]:
        """The class of the exception."""
        module, _, name = self.exception_class_path.rpartition(".")
        found = getattr(sys.modules.get(module), name, None)
        if isinstance(found, type) and issubclass(found, BaseException):
            return found
        raise ValueError(f"{self.exception_class_path!r} is no exception of a module that is imported here.")


def kind_of(error: BaseException) -> str:
    """Name the class of an exception so that it can be found again."""
    kind = type(error)
    if kind.__module__ == "builtins" or getattr(dibs, kind.__name__, None) is kind:
        return kind.__name__
    return f"{kind.__module__}.{kind.__qualname__}"


def class_path(kind: str, traceback: str = "") -> str:
    """Say where the class of an error is; one that was kept by its name alone is looked for in the traceback."""
    if "." in kind:
        return kind
    if kind in _KINDS:
        return _KINDS[kind]
    for home in (builtins, dibs):
        if isinstance(getattr(home, kind, None), type):
            return f"{home.__name__}.{kind}"
    found = re.findall(rf"^([\w.]+\.{re.escape(kind)})(?::|$)", traceback, re.MULTILINE)
    return str(found[-1]) if found else "builtins.Exception"


def _time(us: int | None) -> datetime | None:
    """Read a time of the store as Django does: aware, unless the project has no time zones."""
    time = time_of(us)
    return timezone.make_naive(time) if time is not None and not settings.USE_TZ else time
