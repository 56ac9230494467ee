"""Errors as ``application/problem+json``: the members of RFC 9457, and those that clients of the seed know."""

from __future__ import annotations

import re
from difflib import get_close_matches
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from dibs.domain.errors import (
    DibsError,
    IdempotencyMismatch,
    Invalid,
    InvalidRequest,
    NotClaimable,
    NothingPending,
    TooLarge,
)
from dibs.domain.errors import Problem as Fault
from dibs.wire.refused import NAMES, FieldProblem, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

REQUIRED = "is required"
RACE = "Race condition detected, please retry"

_MISSING = re.compile(r"Object missing required field `(?P<name>.*?)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*?)`", re.DOTALL)
_TYPES = re.compile(r"Expected `(?P<wanted>[a-z| ]+)`, got `(?P<given>[a-z]+)`")
_PLACE = re.compile(r"(?P<what>.*) - at `\$\.?(?P<path>.*)`", re.DOTALL)


# What msgspec calls it, and what it is.
_KINDS = {
    "int": "an integer",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}
_LONG = 100


class Misfit(InvalidRequest):
    """What was sent is not what the call takes; its fields are named as they were sent."""


class NoRoute(DibsError):
    """There is nothing at this address."""

    code = "not_found"
    kind = "no_route"  # so that a client can tell a wrong address from a job that there is not
    http_status = 404
    hint = "The calls are listed in /openapi.json."


class WrongMethod(DibsError):
    """This address does not take that method."""

    code = "method_not_allowed"
    http_status = 405


class WrongContent(DibsError):
    """The body is not JSON."""

    code = "unsupported_media_type"
    http_status = 415
    hint = "Send JSON with Content-Type: application/json, not compressed."


class Stalled(DibsError):
    """The body did not arrive in time."""

    code = "timeout"
    http_status = 408


class Unexpected(DibsError):
    """Something went wrong in the server; its log says what."""


class Empty(NothingPending):
    """Nothing to claim, with what was asked for."""

    def __init__(self, filters: dict[str, Any]) -> None:
        self.filters = filters
        super().__init__("No pending tasks available")


def problem_of(error: DibsError, names: Mapping[str, str] = NAMES) -> Problem:
    """Say on the wire what an error says in Python."""
    faults = _faults(error, names)
    sentence = _sentence(error, faults)
    headline, message = _seed(error, faults, sentence)
    return Problem(
        type=f"urn:dibs:error:{error.kind if isinstance(error, NoRoute) else error.code}",
        title=HTTPStatus(error.http_status).phrase,
        status=error.http_status,
        detail=f"{sentence} ({error.hint})" if error.hint else sentence,
        error=headline,
        message=message,
        code=error.code,
        errors=[FieldProblem(*fault) for fault in faults] or UNSET,
        filters=error.filters if isinstance(error, Empty) else UNSET,
        size=error.size if isinstance(error, TooLarge) else UNSET,
        limit=error.limit if isinstance(error, TooLarge) else UNSET,
    )


def _faults(error: DibsError, names: Mapping[str, str]) -> list[Fault]:
    if isinstance(error, Misfit):
        return [Fault(printable(fault.field), fault.message) for fault in error.problems]
    if isinstance(error, Invalid):
        return [Fault(rename(fault.field, names), fault.message) for fault in error.problems]
    if isinstance(error, TooLarge):
        return [Fault(rename(error.field, names), f"{error.size:,} bytes, {error.limit:,} at most")]
    if isinstance(error, IdempotencyMismatch):
        place = "" if error.index is None else f"tasks[{error.index}]."
        return [Fault(place + rename(error.field, names), error.message.removeprefix(f"jobs[{error.index}]: "))]
    return []


def _sentence(error: DibsError, faults: list[Fault]) -> str:
    if isinstance(error, IdempotencyMismatch):
        return faults[0].message
    return printable("; ".join(map(str, faults)) if faults else error.message)


def _seed(error: DibsError, faults: list[Fault], sentence: str) -> tuple[str, str]:
    """Give ``error`` and ``message``, in the seed's own words where it has some."""
    if isinstance(error, NotClaimable) and error.reason == "claimed":
        return sentence, RACE
    if isinstance(error, Invalid):
        field, message = faults[0]
        if message == REQUIRED:
            return f"Missing required field: {field}", sentence
        if field == "worker_id":
            return "Invalid worker_id format", sentence
    return sentence, sentence


def rename(field: str, names: Mapping[str, str]) -> str:
    """Call a field as it is called on the wire; of one in a list, the list too. What is inside of params stays."""
    head, dot, rest = field.partition(".")
    name, bracket, index = head.partition("[")
    if bracket and dot:
        rest = rename(rest, names)
    return printable(names.get(name, name) + bracket + index + dot + rest)


_OTHERWISE = {
    "task": "task_type",
    "job_type": "task_type",
    "delay": "delay_seconds",
    "timeout": "timeout_seconds",
    "lease": "lease_seconds",
    "wait": "wait_seconds",
    "batch": "batch_id",
    "tasks": "task_types",
    "token": "lease_token",
}
"""What some fields are called elsewhere, and here."""


def misfit(error: msgspec.ValidationError, kind: type[Any], where: str = "body") -> Misfit:
    """Say which field does not fit, by what msgspec says of it."""
    text = str(error)
    placed = _PLACE.fullmatch(text)
    what, path = (placed["what"], placed["path"]) if placed else (text, "")
    if missing := _MISSING.fullmatch(what):
        return Misfit([Fault(_join(path, missing["name"]), REQUIRED)])
    if unknown := _UNKNOWN.fullmatch(what):
        known = [] if path else [field.encode_name for field in msgspec.structs.fields(kind)]
        meant = _OTHERWISE.get(unknown["name"])
        near = [meant] if meant in known else get_close_matches(unknown["name"][:_LONG], known, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return Misfit([Fault(_join(path, unknown["name"]), f"is not a field of this call{hint}")])
    if types := _TYPES.fullmatch(what):
        wanted = " or ".join(_KINDS.get(name, name) for name in types["wanted"].split(" | "))
        return Misfit([Fault(path or where, f"must be {wanted}, not {_KINDS.get(types['given'], types['given'])}")])
    return Misfit([Fault(path or where, what[:1].lower() + what[1:])])


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def printable(text: str) -> str:
    """Make a text that can be sent: a lone surrogate of the caller's is spelled out."""
    return text.encode("utf-8", "backslashreplace").decode()
