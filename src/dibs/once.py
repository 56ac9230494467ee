"""Doing something once: its result is kept under a key, and whoever comes later gets it."""

from __future__ import annotations

from inspect import isawaitable
from typing import TYPE_CHECKING, Any

import msgspec

from dibs.domain.checks import MAX_KEY, check_text
from dibs.domain.errors import InvalidRequest, Problem
from dibs.domain.job import DAY
from dibs.domain.retry import micros
from dibs.domain.validate import encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.runtime import Runtime

PREFIX = "once/"
KEPT = micros(7 * DAY)


async def recall(runtime: Runtime, key: str, function: Callable[[], Any]) -> tuple[bool, Any]:
    """Say whether there is a result, and which; the arguments are checked before anything is done."""
    if problems := check_text("key", key, most=MAX_KEY) + _check_function(function):
        raise InvalidRequest(problems)
    document = await runtime.broker().read(PREFIX + key)
    return (False, None) if document is None else (True, msgspec.json.decode(document.value))


def _check_function(function: Any) -> list[Problem]:
    return [] if callable(function) else [Problem("function", "must be a function without arguments")]


async def remember(runtime: Runtime, key: str, result: Any) -> Any:
    """Keep a result, unless someone was first; return the one that is kept."""
    value = encode("result", result, runtime.config.max_result_bytes, InvalidRequest)
    broker = runtime.broker()
    # Race: two that ran at once. The first to write wins, and the other returns what the first one has written.
    if await broker.put(PREFIX + key, value, expect=0, keep_us=KEPT) is None:
        first = await broker.read(PREFIX + key)
        value = value if first is None else first.value
    return msgspec.json.decode(value)


async def once(runtime: Runtime, key: str, function: Callable[[], Any]) -> Any:
    """Return the kept result, or run the function and keep what it returns."""
    found, result = await recall(runtime, key, function)
    if found:
        return result
    result = function()
    if isawaitable(result):
        result = await result
    return await remember(runtime, key, result)
