"""The trace context that jobs carry: asked of whoever enqueues them, and read by whoever runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from dibs.domain.errors import InvalidRequest, Problem
from dibs.task import is_async

if TYPE_CHECKING:
    from dibs.domain.newjob import NewJob

TraceContext: TypeAlias = Callable[[], dict[str, str] | None]
"""Says what the caller's trace is, as texts by name, such as ``traceparent``; none if there is none."""


def check_trace_context(function: Any, before: TraceContext | None) -> None:
    """Check the function that is to say what the trace is."""
    if not callable(function) or is_async(function):
        raise _wrong("must be a plain function that returns texts by name, or None; @app.trace_context above it")
    try:
        signature(function).bind()
    except TypeError:
        raise _wrong("must be a function without arguments") from None
    if before is not None:
        raise _wrong("the app has one already; let that one say all there is to say")


def traced(function: TraceContext, jobs: Sequence[NewJob]) -> Sequence[NewJob]:
    """Put the caller's trace on each job that brings none of its own."""
    trace = function()
    if not trace:
        return jobs
    return [msgspec.structs.replace(new, trace=trace) if new.trace is None else new for new in jobs]


def _wrong(message: str) -> InvalidRequest:
    return InvalidRequest([Problem("trace_context", message)])
