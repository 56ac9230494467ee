"""What a worker is asked to be, checked all at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dibs.domain import checks
from dibs.domain.errors import InvalidRequest, Problem
from dibs.worker.finding import importing
from dibs.worker.health import check_health_file
from dibs.worker.processes import check_processes
from dibs.worker.renewal import check_renewal
from dibs.worker.shares import check_weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.app import App
    from dibs.domain.retry import Duration

MOST_PLACES = 10_000


def apart(app: App, tasks: Sequence[str]) -> list[str]:
    """List those that run in processes; none where there are no threads either, or nothing will run at all."""
    if importing() or not app.runtime.clock.threads:
        return []
    return [name for name in tasks if app.tasks[name].process]


def check(
    app: App,
    worker_id: str,
    queues: Sequence[str] | Mapping[str, int] | None,
    tasks: Sequence[str] | None,
    *,
    concurrency: int,
    prefetch: int | None,
    lease: Duration | None,
    grace: Duration,
    handler_processes: int | None,
    renew_after_jobs: int | None,
    renew_above_mib: int | None,
    health_file: object,
) -> None:
    """Check all settings at once."""
    problems = checks.check_worker_id(worker_id)
    problems += checks.check_integer("concurrency", concurrency, 1, MOST_PLACES)
    if prefetch is not None:
        problems += checks.check_integer("prefetch", prefetch, 0, MOST_PLACES)
    problems += checks.check_duration("grace", grace, least=0)
    problems += check_renewal(renew_after_jobs, renew_above_mib)
    problems += check_health_file(health_file)
    if lease is not None:
        problems += checks.check_duration("lease", lease, least=checks.MIN_LEASE)
    if isinstance(queues, Mapping):
        problems += check_weights(queues)
    elif queues is not None:
        problems += checks.check_names("queues", queues)
    if tasks is None:
        if not app.tasks:
            problems.append(Problem("tasks", "the app has none; define one with @app.task, or import where they are"))
    elif isinstance(tasks, str) or not tasks:
        problems.append(Problem("tasks", "must be a list of names"))
    else:
        problems += [Problem("tasks", f"the app has no task {name!r}") for name in tasks if name not in app.tasks]
    if not problems:
        names = apart(app, list(app.tasks if tasks is None else tasks))
        problems += check_processes(app, names, handler_processes, concurrency)
    if problems:
        raise InvalidRequest(problems)
