"""Traces by OpenTelemetry: a span for each enqueue, one for each run of a handler, and what joins the two.

=========  ===========================================================================================================
send       of whoever enqueues; its context is stored in the jobs, as texts, by the propagator that is set globally
process    of whoever runs a handler; linked to the ``send`` that its job came by, or its child
=========  ===========================================================================================================

Names are those of the semantic conventions for messaging, where there is one, and else begin with ``dibs.``.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

try:
    from opentelemetry import context as contexts
    from opentelemetry import propagate, trace
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
except ImportError:
    from dibs.domain.errors import NotSupported

    raise NotSupported("traces need opentelemetry-api", hint="pip install 'dibs-queue[otel]'") from None

from dibs import __version__
from dibs.app import App
from dibs.domain.checks import check_trace
from dibs.domain.errors import InvalidRequest, Problem
from dibs.domain.signals import Fail, Retry, Snooze
from dibs.worker.handling import timed_out
from dibs.worker.settling import Exited, Reported, TimedOut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from opentelemetry.trace import TracerProvider

    from dibs.claim import Claim
    from dibs.domain.job import Error, Job
    from dibs.domain.newjob import NewJob
    from dibs.middleware import Call
    from dibs.telemetry import TakeUp

__all__ = ["instrument"]


def instrument(app: App, *, parent: bool = False, tracer_provider: TracerProvider | None = None) -> None:
    """Make spans of what an app enqueues and runs: call it once, where the app is made.

    The run of a handler begins a trace of its own, with a link to the span that enqueued its job. With ``parent`` it is
    also a child of that span, and its trace goes on: one trace for all that a request set off, however long it takes.
    """
    if not isinstance(app, App):
        raise InvalidRequest([Problem("app", "must be a dibs.App")])
    app.instrument(_Spans(trace.get_tracer("dibs", __version__, tracer_provider), parent=parent))


@contextmanager
def take_up(context: dict[str, str]) -> Iterator[None]:
    """Run what is in the block beneath a span of another process."""
    token = contexts.attach(propagate.extract(context, context=contexts.Context()))
    try:
        yield
    finally:
        contexts.detach(token)


class _Spans:
    """Makes the spans of one app."""

    def __init__(self, tracer: trace.Tracer, *, parent: bool) -> None:
        self._tracer = tracer
        self._parent = parent

    @property
    def take_up(self) -> TakeUp:
        return take_up

    def context(self) -> dict[str, str] | None:
        """Say what the trace is. What a job cannot carry, such as too much baggage, is left out: jobs come first."""
        texts: dict[str, str] = {}
        propagate.inject(texts)
        return {name: text for name, text in texts.items() if not check_trace({name: text})}

    # Enqueueing

    @contextmanager
    def sending(self, jobs: Sequence[NewJob], queue: str) -> Iterator[Callable[[list[Job]], None]]:
        """Make the span of an enqueue. What is enqueued was not checked yet, and may be anything."""
        destination = _shared(queue if new.queue is None else new.queue for new in jobs)
        attributes = _attributes("send", destination, _shared(new.task for new in jobs))
        if len(jobs) != 1:
            attributes["messaging.batch.message_count"] = len(jobs)
        name = "send" if destination is None else f"send {destination}"
        with self._tracer.start_as_current_span(name, kind=SpanKind.PRODUCER, attributes=attributes) as span:
            try:
                yield lambda stored: _sent(span, stored)
            except Exception as error:
                span.set_attribute("error.type", _kind(error))
                raise

    # Running

    async def process(self, claim: Claim, call: Call) -> Any:
        """Make the span of a handler's run, and run it beneath that."""
        job = claim.job
        # Nothing of the context that the worker was started in: a span there has nothing to do with this job.
        stored = propagate.extract(job.trace, context=contexts.Context())
        origin = trace.get_current_span(stored).get_span_context()
        beneath = stored if self._parent else trace.set_span_in_context(trace.INVALID_SPAN, stored)
        attributes = _attributes("process", job.queue, job.task) | {
            "messaging.message.id": job.id,
            "messaging.client.id": job.worker_id or "",
            "dibs.fence": claim.fence,
            "dibs.attempt": claim.attempt,
            "dibs.max_attempts": job.max_attempts,
        }
        span = self._tracer.start_span(
            f"process {job.queue}",
            beneath,
            SpanKind.CONSUMER,
            attributes,
            [Link(origin)] if origin.is_valid else (),
            record_exception=False,
        )
        contexts.attach(trace.set_span_in_context(span, beneath))  # a job's context is its own: nothing to put back
        try:
            result = await call()
        except BaseException as error:
            _tell(span, error, _outcome_of(claim, error))
            raise
        else:
            _tell(span, None, _outcome_of(claim, None))
            return result
        finally:
            span.end()


class _Outcome(NamedTuple):
    """What became of a run: what the job's log calls it, and what was wrong, if anything was."""

    what: str
    wrong: str | None = None
    message: str = ""


def _outcome_of(claim: Claim, error: BaseException | None) -> _Outcome:
    if claim.lost:
        return _Outcome("lost", "lease_lost", "the claim was taken over, or its job has ended, while the handler ran")
    if claim.verb is not None:  # by the handler itself
        return _Outcome(_PAST[claim.verb], *(() if error is None else (_kind(error), str(error))))
    if error is None:
        return _Outcome("completed")
    stopped = isinstance(error, asyncio.CancelledError) and _stopping() and not timed_out()
    if stopped or isinstance(error, Snooze):
        return _Outcome("released")
    final = isinstance(error, Fail) or (isinstance(error, Exited) and not error.retryable)
    last = final or claim.attempt >= claim.job.max_attempts
    if not last and (isinstance(error, Retry) or (isinstance(error, Reported) and error.meant)):
        return _Outcome("retried")  # as it was meant
    return _Outcome("failed" if last else "retried", _kind(error), _message(error))


_PAST = {"complete": "completed", "fail": "failed", "release": "released"}


def _tell(span: Span, error: BaseException | None, outcome: _Outcome) -> None:
    span.set_attribute("dibs.outcome", outcome.what)
    if outcome.wrong is None:
        if error is not None and not isinstance(error, asyncio.CancelledError):
            span.add_event(outcome.what, {"dibs.note": str(error)})
        return
    span.set_attribute("error.type", outcome.wrong)
    span.set_status(Status(StatusCode.ERROR, outcome.message))
    if (known := _kept(error)) is not None:
        span.add_event("exception", _as_exception(known))
    elif error is not None and not isinstance(error, asyncio.CancelledError):
        span.record_exception(error)


def _as_exception(error: Error) -> dict[str, str]:
    told = {
        "exception.type": error.kind,
        "exception.message": error.message,
        "exception.stacktrace": error.traceback,
    }
    return {name: text for name, text in told.items() if text}


def _kept(error: BaseException | None) -> Error | None:
    """Give what is known of an error that was raised elsewhere."""
    return error.error if isinstance(error, Exited | TimedOut) else None


def _kind(error: BaseException) -> str:
    """Name what was wrong, in one of few words."""
    if (isinstance(error, asyncio.CancelledError) and timed_out()) or isinstance(error, TimedOut):
        return "timeout"
    if (kept := _kept(error)) is not None:
        return kept.code or kept.kind or "exit"
    code = getattr(error, "code", None) if isinstance(error, Exception) else None  # SystemExit's is another thing
    if code and isinstance(code, str):
        return code
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _message(error: BaseException) -> str:
    return "took longer than the job may take" if _kind(error) == "timeout" else str(error)


def _stopping() -> bool:
    """Say whether what runs here was cancelled; a handler may raise the same by itself, and has failed then."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _attributes(operation: str, queue: str | None, task: str | None) -> dict[str, Any]:
    given = {
        "messaging.system": "dibs",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": queue,
        "dibs.task": task,
    }
    return {name: value for name, value in given.items() if value is not None}


def _shared(values: Iterable[Any]) -> str | None:
    """Give what all of them are, if that is one name."""
    first, *rest = [*values] or [None]
    return first if isinstance(first, str) and all(value == first for value in rest) else None


def _sent(span: Span, stored: list[Job]) -> None:
    if len(stored) == 1:
        [job] = stored
        span.set_attribute("messaging.destination.name", job.queue)
        span.set_attribute("messaging.message.id", job.id)
    if duplicates := sum(job.was_duplicate for job in stored):
        span.set_attribute("dibs.duplicates", duplicates)
