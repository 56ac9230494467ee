"""Middleware: what an app wraps around the running of its handlers, for logs, traces and reports of errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from inspect import signature
from typing import Any, TypeAlias

from dibs.claim import Claim
from dibs.domain.errors import InvalidRequest, Problem, WrongState
from dibs.task import is_async

Call: TypeAlias = Callable[[], Awaitable[Any]]
"""What a middleware awaits, once, to run the handler and whatever middleware is between them."""
Middleware: TypeAlias = Callable[[Claim, Call], Awaitable[Any]]
"""``async def name(claim, call)``: what it returns is the job's result, what it raises is how the job ends."""


def check_middleware(function: Any) -> None:
    """Check what is to become a middleware."""
    if not callable(function):
        raise _wrong("must be an async function; write @app.middleware above it, without parentheses")
    if not is_async(function):
        raise _wrong(f"{_name(function)} is not async, and could not await what it wraps; write async def")
    try:
        signature(function).bind(None, None)
    except TypeError:
        raise _wrong(f"{_name(function)} must take two arguments: async def {_name(function)}(claim, call)") from None


def wrap(layers: Sequence[Middleware], claim: Claim, innermost: Call) -> Call:
    """Put middleware around a call, the first of them outermost."""
    call = innermost
    for layer in reversed(layers):
        call = partial(layer, claim, _Once(call, layer))
    return call


class _Once:
    """Runs what a middleware wraps: once, as the job is claimed once, and each attempt at it is counted."""

    __slots__ = ("_call", "_layer")

    def __init__(self, call: Call, layer: Middleware) -> None:
        self._call: Call | None = call
        self._layer = layer

    def __call__(self) -> Awaitable[Any]:
        call, self._call = self._call, None
        if call is None:
            hint = "Await it once, and keep what it returns. To have the job tried again, raise dibs.Retry."
            raise WrongState(f"middleware {_name(self._layer)} ran its job twice", hint=hint)
        return call()


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", None) or type(function).__name__)


def _wrong(message: str) -> InvalidRequest:
    return InvalidRequest([Problem("middleware", message)])
