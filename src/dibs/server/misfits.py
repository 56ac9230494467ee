"""What is wrong with params that do not fit a schema, in our own words, each with the name of its field."""

from __future__ import annotations

from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from dibs.domain.errors import Problem
from dibs.server.problems import REQUIRED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jsonschema_rs import ValidationError

    from dibs.server.checking import Known

MOST = 20
"""Problems of one job."""
LONG = 200
"""Characters of one."""

_KINDS = {
    "string": "a text",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}
_GIVEN: tuple[tuple[type[Any], str], ...] = (
    (str, "a text"),
    (bool, "true or false"),
    (int, "an integer"),
    (float, "a number"),
    (dict, "an object"),
    (list, "a list"),
)


def misfits(known: Known, task: str, params: Any, where: str) -> list[Problem]:
    """List what is wrong with params that do not fit; ``where``: what their own field is called."""
    if known.validator is None:
        return []
    told = _Told(known, task, where)
    try:
        errors = known.validator.iter_errors(params)
    except ValueError:  # a lone surrogate somewhere
        return [Problem(where, f"does not fit the schema of task {task}")]
    found = (problem for error in errors for problem in told.problems(error))
    return [Problem(field, _cut(message)) for field, message in islice(found, MOST)]


class _Told:
    def __init__(self, known: Known, task: str, where: str) -> None:
        self._known = known
        self._task = task
        self._where = where

    def problems(self, error: ValidationError) -> Iterator[Problem]:
        keyword, value = error.kind.name, error.kind.value
        if keyword == "required":
            yield Problem(self._field(error, value), REQUIRED)
        elif keyword == "additionalProperties":
            for name in value:
                yield Problem(self._field(error, name), self._unexpected(error, name))
        elif keyword in {"anyOf", "oneOf"} and isinstance(value, list) and value:
            yield from self._either(error, value)
        else:
            yield Problem(self._field(error), _wanted(error))

    def _field(self, error: ValidationError, *more: str) -> str:
        parts = [f"[{part}]" if isinstance(part, int) else f".{_cut(part)}" for part in (*error.instance_path, *more)]
        return self._where + "".join(parts)

    def _unexpected(self, error: ValidationError, name: str) -> str:
        if error.instance_path:
            return "is not a field that is known there"
        near = get_close_matches(name[:LONG], self._known.names, 1)
        return f"is not an argument of task {self._task}" + (f"; did you mean {near[0]}?" if near else "")

    def _either(self, error: ValidationError, branches: list[list[ValidationError]]) -> Iterator[Problem]:
        """Tell of the one that was meant, if what is wrong lies deeper there; else what it could have been."""
        for branch in branches:
            if branch and not any(each.instance_path == error.instance_path and _rules_out(each) for each in branch):
                for each in branch:
                    yield from self.problems(each)
                return
        wanted = dict.fromkeys(_wanted(each) for branch in branches for each in branch[:1])
        types = [each.kind.value for branch in branches for each in branch[:1] if each.kind.name == "type"]
        if len(types) == len(branches):
            yield Problem(self._field(error), _types([name for names in types for name in names], error.instance))
        else:
            yield Problem(self._field(error), ", or ".join(wanted))


def _rules_out(error: ValidationError) -> bool:
    """Say whether it was not this that was meant: it is of another kind altogether."""
    return error.kind.name in {"type", "enum", "const"}


def _wanted(error: ValidationError) -> str:
    keyword, value = error.kind.name, error.kind.value
    if keyword == "type":
        return _types(value, error.instance)
    if keyword == "enum":
        return "must be one of " + ", ".join(msgspec.json.encode(each).decode() for each in value)
    if keyword == "const":
        return "must be " + msgspec.json.encode(value).decode()
    return error.message


def _types(names: Iterable[str], given: Any) -> str:
    wanted = " or ".join(_KINDS.get(name, name) for name in dict.fromkeys(names))
    return f"must be {wanted}, not {next((word for kind, word in _GIVEN if isinstance(given, kind)), 'null')}"


def _cut(text: str) -> str:
    return text if len(text) <= LONG else text[: LONG - 1] + "…"
