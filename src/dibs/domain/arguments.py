"""A function's arguments as its annotations want them: made from a job's params, and refused if they cannot be. Pure.

What ``msgspec`` can make of JSON is made: numbers, texts, times, enums, dataclasses, structs, and lists and dicts of
them; a model of pydantic makes itself. An argument whose type neither knows is passed on as it came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter, Signature
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.inspect import CustomType, Field, Type, type_info
from msgspec.structs import asdict

from dibs.domain.errors import InvalidJob, Problem
from dibs.domain.signature import kind_of, scope_of


class Arguments:
    """Converts the arguments of one function."""

    def __init__(self, function: Callable[..., Any], signature: Signature) -> None:
        scope = scope_of(function)
        kinds: dict[str, Any] = {}
        for parameter in signature.parameters.values():
            if parameter.kind is not Parameter.VAR_KEYWORD:
                kind = _convertible(kind_of(parameter, scope), may_be_none=parameter.default is None)
                kinds[parameter.name] = kind
        self._names = frozenset(kinds)
        self._kind = _record(kinds) if any(kind is not Any for kind in kinds.values()) else None

    def made_from(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Make the arguments of what a job's params have become as JSON."""
        if self._kind is None:  # anything is as good as anything else
            return dict(params)
        try:
            made = asdict(msgspec.convert(params, self._kind, dec_hook=_make, str_keys=True))
        except msgspec.ValidationError as error:
            raise InvalidJob([_problem(str(error))]) from None
        if made.keys() != params.keys():  # some are left out, and others are taken by **kwargs, as they came
            made = {name: made[name] if name in self._names else value for name, value in params.items()}
        return made

    def as_sent(self, params: dict[str, Any]) -> dict[str, Any]:
        """Write arguments as JSON has them, once it is clear that the function would take them again."""
        try:
            sent: dict[str, Any] = msgspec.to_builtins(params, enc_hook=_write, str_keys=True)
        except (TypeError, ValueError, RecursionError):
            return params  # no JSON at all: whoever encodes it says why
        self.made_from(sent)
        return sent


def _record(kinds: Mapping[str, Any]) -> type[msgspec.Struct]:
    """Make a struct of arguments. Any may be left out: whether it really may was seen to before, by its name alone."""
    return msgspec.defstruct("Params", [(name, kind, UNSET) for name, kind in kinds.items()], kw_only=True)


def _convertible(kind: Any, *, may_be_none: bool) -> Any:
    """Give the type, if it can be made from JSON whatever is inside; else anything."""
    try:
        kind = kind | None if may_be_none else kind  # who writes `to: str = None` means that it may be null
        if all(hasattr(custom, "model_validate") for custom in _customs(type_info(kind), set())):
            msgspec.convert({}, _record({"it": kind}), dec_hook=_make)
            return kind
    except Exception:  # noqa: BLE001 - whatever a type is made of: it is passed on as it came
        return Any
    return Any


def _customs(info: Any, seen: set[int]) -> Iterator[type]:
    """Find the classes that msgspec does not know, anywhere in a type."""
    if id(info) in seen:
        return
    seen.add(id(info))
    if isinstance(info, CustomType):
        yield info.cls
    for name in info.__struct_fields__:
        value = getattr(info, name)
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, Type | Field):
                yield from _customs(each, seen)


def _make(kind: type, value: Any) -> Any:
    """Make what msgspec does not know: a model of pydantic, whose errors are told without what was sent."""
    try:
        return kind.model_validate(value)  # type: ignore[attr-defined]
    except ValueError as error:
        if not hasattr(error, "errors"):
            raise
        told = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        raise ValueError("; ".join(told)) from None


def _write(value: Any) -> Any:
    """Write what msgspec does not know: a model of pydantic."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} is no JSON")


def _problem(message: str) -> Problem:
    """Say what is wrong, and where: msgspec tells both in one text."""
    what, _, path = message.partition(" - at `$")
    field = "params" + path.rstrip("`")
    return Problem(field, what[:1].lower() + what[1:])
