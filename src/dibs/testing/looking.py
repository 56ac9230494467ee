"""``enqueued``: what was enqueued, asserted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from dibs.task import Task

if TYPE_CHECKING:
    from dibs.app import App
    from dibs.domain.job import Job

SHOWN = 20
"""Jobs that a failed assertion lists."""


async def enqueued(app: App, task: Task[..., Any] | str, /, *, times: int | None = None, **params: Any) -> list[Job]:
    """Assert that jobs of a task were enqueued whose params have at least these, whatever became of them; list them.

    Without ``times`` one or more will do; ``times=0`` asserts that there is none. The oldest comes first.
    """
    name = task.name if isinstance(task, Task) else task
    wanted = msgspec.to_builtins(params)
    everything = [job async for job in app.find()][::-1]
    found = [job for job in everything if job.task == name and _has(job.params, wanted)]
    if found if times is None else len(found) == times:
        return found
    asked = f"{name}({', '.join(f'{key}={value!r}' for key, value in params.items())})"
    number = "at least once" if times is None else f"{times} times"
    shown = [f"  {job.task} {job.params!r}, {job.status}" for job in everything[-SHOWN:]]
    left_out = [f"  and {len(everything) - SHOWN} before"] if len(everything) > SHOWN else []
    known = "\n".join([*left_out, *shown]) or "  nothing"
    raise AssertionError(f"{asked} was enqueued {len(found)} times, not {number}; there were:\n{known}")


def _has(params: Any, wanted: dict[str, Any]) -> bool:
    if not wanted:
        return True
    return isinstance(params, dict) and all(name in params and params[name] == value for name, value in wanted.items())
