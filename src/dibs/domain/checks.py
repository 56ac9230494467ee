"""The checks of single values: each says which field is wrong and what it must be."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from dibs.domain.errors import InvalidRequest, Problem
from dibs.domain.job import DAY, Order, Ref, Retention
from dibs.domain.retry import SECOND, Backoff, micros

PRIORITIES = {"low": -10, "normal": 0, "high": 10}
MIN_PRIORITY, MAX_PRIORITY = -32768, 32767
MAX_ATTEMPTS = 1_000_000
MAX_NAME, MAX_KEY, MAX_TAGS, MAX_TRACE = 128, 255, 32, 8192
MAX_NAMES = 1000
MAX_FENCE = 2**63 - 1

_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}\Z")
_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,128}\Z")
_WORKER = re.compile(r"[a-zA-Z0-9_-]{1,128}\Z")
_DOTS = frozenset({".", ".."})
_ORDERS = frozenset(map(str, Order))
_CONTROL = re.compile("[\x00-\x1f\x7f]")
MAX_DURATION = 100 * 365 * DAY
"""A century: longer is a mistake in units."""
MIN_LEASE = 0.01
"""Seconds; a shorter lease would run out on its way to the worker."""


def check_defaults(given: Mapping[str, Any]) -> list[Problem]:
    """List what is wrong with the options that jobs, tasks, queues and apps can have alike."""
    problems: list[Problem] = []
    for field, value in given.items():
        if field == "priority":
            problems += check_priority(value)
        elif field == "max_attempts":
            problems += check_integer("max_attempts", value, 1, MAX_ATTEMPTS)
        elif field == "retry":
            problems += _check_backoff(value)
        elif field == "timeout":
            problems += check_duration("timeout", value, least=0.001)
        elif field == "lease":
            problems += check_duration("lease", value, least=MIN_LEASE)
        elif field == "retention":
            problems += _check_retention(value)
    return problems


def check_id(field: str, value: Any) -> list[Problem]:
    """Check a job id."""
    if isinstance(value, str) and _ID.match(value) and value not in _DOTS:
        return []
    return [Problem(field, "must be 1 to 128 of A-Z a-z 0-9 _ . : - and not '.' or '..'")]


def check_name(field: str, value: Any) -> list[Problem]:
    """Check the name of a queue or a task."""
    if isinstance(value, str) and _NAME.match(value) and not {"", ".", ".."} & set(value.split("/")):
        return []
    return [Problem(field, "must be 1 to 128 of A-Z a-z 0-9 _ . : - / without empty, '.' or '..' segments")]


def check_worker_id(value: Any) -> list[Problem]:
    """Check a worker's name."""
    if isinstance(value, str) and _WORKER.match(value):
        return []
    return [Problem("worker_id", "must be 1 to 128 of A-Z a-z 0-9 _ -")]


def check_text(field: str, value: Any, *, most: int) -> list[Problem]:
    """Check a free text that is compared by its bytes."""
    if not isinstance(value, str) or not 1 <= len(value) <= most:
        return [Problem(field, f"must be a text of 1 to {most} characters")]
    if _CONTROL.search(value):
        return [Problem(field, "must not contain control characters")]
    return _check_encodable(field, value)


def _check_encodable(field: str, value: str) -> list[Problem]:
    try:
        value.encode()
    except UnicodeEncodeError:
        return [Problem(field, "contains a lone surrogate, which is not a character")]
    return []


def check_integer(field: str, value: Any, least: int, most: int) -> list[Problem]:
    """Check a whole number; a bool or a float is not one."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return []
    return [Problem(field, f"must be a whole number from {least} to {most}")]


def check_priority(value: Any) -> list[Problem]:
    """Check a priority, a number or one of its names."""
    if isinstance(value, str):
        return (
            [] if value in PRIORITIES else [Problem("priority", f"must be a number, or one of {', '.join(PRIORITIES)}")]
        )
    return check_integer("priority", value, MIN_PRIORITY, MAX_PRIORITY)


def check_duration(field: str, value: Any, *, least: float) -> list[Problem]:
    """Check a length of time."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if not isinstance(value, int | float) or isinstance(value, bool):
        return [Problem(field, "must be seconds or a timedelta")]
    if not least <= value <= MAX_DURATION:  # neither is what is not a number, nor infinity
        return [Problem(field, f"must be between {least:g} seconds and a hundred years")]
    return []


def check_time(field: str, value: Any) -> list[Problem]:
    """Check a point in time."""
    if not isinstance(value, datetime):
        return [Problem(field, "must be a datetime")]
    if value.utcoffset() is None:
        return [Problem(field, "must have a time zone, such as datetime.now(UTC)")]
    try:
        value.astimezone(UTC)
    except OverflowError:
        return [Problem(field, "must be between the years 1 and 9999 in UTC")]
    return []


def _check_backoff(value: Any) -> list[Problem]:
    if not isinstance(value, Backoff):
        return [Problem("retry", "must be a dibs.Backoff(base=seconds, cap=seconds)")]
    return check_duration("retry.base", value.base, least=0) + check_duration("retry.cap", value.cap, least=0)


def _check_retention(value: Any) -> list[Problem]:
    if not isinstance(value, Retention):
        return check_duration("retention", value, least=0)
    return [
        problem
        for field in Retention.__struct_fields__
        for problem in check_duration(f"retention.{field}", getattr(value, field), least=0)
    ]


def check_tags(tags: Any) -> list[Problem]:
    """Check a list of tags."""
    if isinstance(tags, str) or not isinstance(tags, Collection):  # an iterator would be used up by looking
        return [Problem("tags", "must be a list of texts")]
    problems = [problem for i, tag in enumerate(tags) for problem in check_text(f"tags[{i}]", tag, most=MAX_NAME)]
    if len(tags) > MAX_TAGS:
        problems.append(Problem("tags", f"must be {MAX_TAGS} at most"))
    return problems


def check_trace(trace: Any) -> list[Problem]:
    """Check the trace context that travels with a job."""
    if not isinstance(trace, dict):
        return [Problem("trace", "must map names to texts")]
    problems = [problem for name in trace for problem in check_text("trace", name, most=MAX_NAME)]
    return problems + [p for name, text in trace.items() for p in check_text(f"trace[{name!r}]", text, most=MAX_TRACE)]


def are_refs(refs: Iterable[Any]) -> bool:
    """Say whether these are names of claims, quickly; if not, ``check_ref`` says what is wrong, if anything."""
    token = None
    for ref in refs:
        if type(ref) is not Ref:
            return False
        id, fence = ref.id, ref.fence
        if type(id) is not str or _ID.match(id) is None or id in _DOTS:
            return False
        if type(fence) is not int or not 1 <= fence <= MAX_FENCE:
            return False
        if ref.token is not token:  # those that were claimed together share it
            token = ref.token
            if type(token) is not str or len(token) > MAX_KEY or not token.isascii():
                return False
    return True


def check_ref(ref: Any, where: str = "") -> list[Problem]:
    """Check the name of a claim, before it is compared with the one that holds."""
    if not isinstance(ref, Ref):
        return [Problem(f"{where}ref", "must be the Ref of a claim")]
    problems = check_id(f"{where}id", ref.id) + check_integer(f"{where}fence", ref.fence, 1, MAX_FENCE)
    token: Any = ref.token
    if not isinstance(token, str) or len(token) > MAX_KEY:
        return [*problems, Problem(f"{where}lease_token", f"must be a text of at most {MAX_KEY} characters")]
    return problems + _check_encodable(f"{where}lease_token", token)


def check_names(field: str, values: Any) -> list[Problem]:
    """Check a list of queue or task names."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        return [Problem(field, "must be a list of names")]
    if not 1 <= len(values) <= MAX_NAMES:
        return [Problem(field, f"must have between 1 and {MAX_NAMES} names; leave it out to mean all")]
    return [
        Problem(f"{field}[{i}]", problem.message)
        for i, name in enumerate(values)
        for problem in check_name(field, name)
    ]


def check_order(value: Any) -> list[Problem]:
    """Check the order of a claim."""
    if isinstance(value, str) and value in _ORDERS:
        return []
    return [Problem("order", f"must be one of {', '.join(Order)}")]


def seconds(field: str, value: Any, *, least: float = 0.0) -> float:
    """Check a duration given to a call, and read it as seconds."""
    problems = check_duration(field, value, least=least)
    if problems:
        raise InvalidRequest(problems)
    return micros(value) / SECOND
