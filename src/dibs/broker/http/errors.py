"""From what a server refused to the error that a broker over a store would have raised."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from dibs.domain.errors import (
    DibsError,
    Forbidden,
    IdempotencyMismatch,
    InvalidJob,
    InvalidRequest,
    LeaseLost,
    NotClaimable,
    NotFound,
    NothingPending,
    NotSupported,
    Problem,
    RateLimited,
    SchemaOutdated,
    StoreUnavailable,
    TooLarge,
    Unauthorized,
    UniqueConflict,
    WrongState,
)
from dibs.wire import refused

if TYPE_CHECKING:
    from dibs.broker.http.link import Response

_KINDS: dict[str, type[DibsError]] = {
    kind.code: kind
    for kind in (
        Forbidden,
        LeaseLost,
        NotFound,
        NothingPending,
        NotSupported,
        RateLimited,
        SchemaOutdated,
        StoreUnavailable,
        Unauthorized,
        UniqueConflict,
        WrongState,
    )
}
_NOT_CLAIMABLE = frozenset({"claimed", "not_due", "paused", "limited", "finished"})
_PYTHON = {wire: python for python, wire in refused.NAMES.items() if wire != "claims"}
_PLACED = re.compile(r"tasks\[(?P<index>[0-9]+)\]\.(?P<field>.+)")

_decoder = msgspec.json.Decoder(refused.Problem)


def error_of(response: Response, server: str, *, jobs: bool = False) -> DibsError:
    """Read why a call was refused; ``jobs``: what was wrong is wrong with jobs to be enqueued."""
    media = response.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    try:
        problem = _decoder.decode(response.body if media == refused.MEDIA.encode() else b"")
    except msgspec.DecodeError:
        return stranger(response, server)
    if problem.type.endswith(":no_route"):
        return NotSupported(
            f"{server} has no such call",
            hint="Check the path in the URL, and that the server is no older than this client.",
        )
    return _error(problem, jobs=jobs)


def stranger(response: Response, server: str) -> StoreUnavailable:
    """Say that this is not what a dibs server answers."""
    return StoreUnavailable(
        f"{server} answered {response.status}, and not as a dibs server does",
        hint="Check the URL, and what stands in front of the server.",
    )


def _error(problem: refused.Problem, *, jobs: bool) -> DibsError:
    code, message = problem.code, problem.message
    hint = problem.detail.removeprefix(message).strip()[1:-1]
    faults = [Problem(rename(fault.field), fault.message) for fault in problem.errors or ()]
    if code == "invalid":
        return (InvalidJob if jobs else InvalidRequest)(faults or [Problem("request", message)])
    if code in _NOT_CLAIMABLE:
        return NotClaimable(code, problem.error)
    if code == TooLarge.code and problem.size is not UNSET and problem.limit is not UNSET:
        return TooLarge(faults[0].field if faults else "body", problem.size, problem.limit)
    if code == IdempotencyMismatch.code and problem.errors:
        fault = problem.errors[0]
        placed = _PLACED.fullmatch(fault.field)
        return IdempotencyMismatch(
            rename(placed["field"] if placed else fault.field), fault.message, int(placed["index"]) if placed else None
        )
    if kind := _KINDS.get(code):
        return kind(message, hint=hint)
    return DibsError(message, hint=hint)


def rename(field: str) -> str:
    """Call a field as it is called in Python; of one in a list, the list too. What is inside of params stays."""
    head, dot, rest = field.partition(".")
    name, bracket, index = head.partition("[")
    if bracket and dot:
        rest = rename(rest)
    if name == "tasks" and bracket:
        return f"jobs[{index}{dot}{rest}"
    return _PYTHON.get(name, name) + bracket + index + dot + rest
