"""Telemetry: what an app tells, of the jobs that it enqueues and runs, to whoever makes spans of that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from dibs.domain.errors import InvalidRequest, Problem

if TYPE_CHECKING:
    from dibs.app import App
    from dibs.claim import Claim
    from dibs.domain.job import Job
    from dibs.domain.newjob import NewJob
    from dibs.middleware import Call

TakeUp: TypeAlias = Callable[[dict[str, str]], AbstractContextManager[None]]
"""Makes a context the current one for as long as a block lasts."""


class Telemetry(Protocol):
    """What it is told, and what it says. An app has one at the most."""

    def sending(self, jobs: Sequence[NewJob], queue: str) -> AbstractContextManager[Callable[[list[Job]], None]]:
        """Surround an enqueue; the function that it gives is told what came of it. ``queue`` is where jobs go else."""
        ...

    def context(self) -> dict[str, str] | None:
        """Say what the trace is here and now, as texts by name."""
        ...

    async def process(self, claim: Claim, call: Call) -> Any:
        """Surround the run of a handler: the outermost middleware."""
        ...

    @property
    def take_up(self) -> TakeUp:
        """What does the same with ``context`` in the process of a handler, which finds it by name: see ``finding``."""
        ...


def check_telemetry(before: Telemetry | None, trace_context: object) -> None:
    """Check that an app can be given one."""
    if before is not None:
        raise InvalidRequest([Problem("app", "is instrumented already; once is enough")])
    if trace_context is not None:
        what = "has a trace context of its own; leave out @app.trace_context, as this says what the trace is"
        raise InvalidRequest([Problem("app", what)])


async def send(app: App, jobs: Sequence[NewJob], connection: Any = None) -> list[Job]:
    """Enqueue jobs of an app, with the caller's trace, and tell its telemetry."""
    runtime = app.runtime
    if app.telemetry is None:
        return await runtime.broker().enqueue(app.traced(jobs), connection=connection)
    with app.telemetry.sending(jobs, runtime.config.queue) as sent:
        stored = await runtime.broker().enqueue(app.traced(jobs), connection=connection)
        sent(stored)
        return stored
