"""A function's arguments as its annotations want them: made from a job's params, and refused if they cannot be. Pure.

What ``msgspec`` can make of JSON is made: numbers, texts, times, enums, dataclasses, structs, and lists and dicts of
them; what is pydantic's, it makes itself. An argument whose type neither knows is passed on as it came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter, Signature
from typing import Any, Optional

import msgspec
from msgspec import UNSET
from msgspec.inspect import CustomType, Field, Type, type_info
from msgspec.structs import asdict

from dibs.domain.errors import InvalidJob, Problem
from dibs.domain.models import Model, model_of, problems, write_to_read
from dibs.domain.signature import kind_of, scope_of


class Arguments:
    """Converts the arguments of one function."""

    def __init__(self, function: Callable[..., Any], signature: Signature) -> None:
        scope = scope_of(function)
        kinds: dict[str, Any] = {}
        self._models: dict[str, Model] = {}
        for parameter in signature.parameters.values():
            if parameter.kind is not Parameter.VAR_KEYWORD:
                kind = kind_of(parameter, scope)
                if parameter.default is None:
                    # Who writes `to: str = None` means that it may be null.
                    kind = Optional[kind]  # noqa: UP045 - it may be any kind
                if (model := model_of(kind)) is not None:
                    self._models[parameter.name] = model
                kinds[parameter.name] = _convertible(kind) if model is None else Any
        self._names = frozenset(kinds)
        self._kind = _record(kinds) if any(kind is not Any for kind in kinds.values()) else None

    def made_from(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Make the arguments of what a job's params have become as JSON."""
        made = dict(params) if self._kind is None else self._converted(params, self._kind)
        if self._models:
            self._make_models(made)
        return made

    def _converted(self, params: Mapping[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
        try:
            made = asdict(msgspec.convert(params, kind, dec_hook=_make, str_keys=True))
        except msgspec.ValidationError as error:
            raise InvalidJob(_problems(error)) from None
        if made.keys() != params.keys():  # some are left out, and others are taken by **kwargs, as they came
            made = {name: made[name] if name in self._names else value for name, value in params.items()}
        return made

    def _make_models(self, made: dict[str, Any]) -> None:
        found: list[Problem] = []
        for name in [name for name in self._models if name in made]:
            try:
                made[name] = self._models[name].make(f"params.{name}", made[name])
            except InvalidJob as error:
                found += error.problems
        if found:
            raise InvalidJob(found)

    def as_sent(self, params: dict[str, Any]) -> dict[str, Any]:
        """Write arguments as JSON has them, once it is clear that the function would take them again."""
        try:
            sent: dict[str, Any] = msgspec.to_builtins(params, enc_hook=write_to_read, str_keys=True)
        except (TypeError, ValueError, RecursionError):
            return params  # no JSON at all: whoever encodes it says why
        self.made_from(sent)
        for name in [name for name in self._models if name in sent]:
            self._models[name].check_sent(f"params.{name}", sent[name])
        return sent


def _record(kinds: Mapping[str, Any]) -> type[msgspec.Struct]:
    """Make a struct of arguments. Any may be left out: whether it really may was seen to before, by its name alone."""
    return msgspec.defstruct("Params", [(name, kind, UNSET) for name, kind in kinds.items()], kw_only=True)


def _convertible(kind: Any) -> Any:
    """Give the type, if it can be made from JSON whatever is inside; else anything."""
    try:
        if all(hasattr(custom, "model_validate_json") for custom in _customs(type_info(kind), set())):
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
    """Make what msgspec does not know, inside of what it does: a model of pydantic."""
    return kind.model_validate_json(msgspec.json.encode(value))  # type: ignore[attr-defined]


def _problems(error: msgspec.ValidationError) -> list[Problem]:
    """Say what is wrong, and where: msgspec tells both in one text, and what a model says in its cause."""
    what, _, path = str(error).rpartition(" - at `$")
    field = "params" + path.rstrip("`")
    if isinstance(error.__cause__, ValueError):
        return problems(field, error.__cause__)
    return [Problem(field, what[:1].lower() + what[1:])]
