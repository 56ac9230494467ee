"""The JSON Schema of a function's arguments, as they are sent: one object that names them. Pure, and it never fails.

What is told of a type is what ``msgspec`` tells of it, and of what is pydantic's what that tells. A type that neither
can describe may be anything; so may one whose name means nothing where the function was defined.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature, unwrap
from types import SimpleNamespace
from typing import Any

import msgspec

from dibs.domain.models import model_of

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_REF = "#/$defs/{}"
_NULL = {"type": "null"}
_ANYTHING = {"$comment": "anything"}  # msgspec takes an empty schema for none at all; it is emptied later

_ONE = ("items", "additionalProperties", "not", "contains", "propertyNames")
_SEVERAL = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "$defs")
_LEFT_OUT = ("uniqueItems", "default")

Schema = dict[str, Any]


def schema_of(function: Callable[..., Any], signature: Signature) -> Schema:
    """Describe the object that names the arguments of a function; what has a default may be left out."""
    parameters = signature.parameters.values()
    scope = scope_of(function)
    schemas, shared = _describe({parameter.name: kind_of(parameter, scope) for parameter in parameters})
    named = [parameter for parameter in parameters if parameter.kind is not Parameter.VAR_KEYWORD]
    others = [schemas[parameter.name] for parameter in parameters if parameter.kind is Parameter.VAR_KEYWORD]
    described: Schema = {
        "$schema": DIALECT,
        "type": "object",
        "properties": {
            # Who writes `to: str = None` means that it may be null.
            parameter.name: _or_null(schemas[parameter.name]) if parameter.default is None else schemas[parameter.name]
            for parameter in named
        },
        "required": [parameter.name for parameter in named if parameter.default is Parameter.empty],
        "additionalProperties": (others[0] or True) if others else False,
    }
    return {**described, "$defs": shared} if shared else described


def scope_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Find the names that the annotations of a function are read by."""
    function = unwrap(getattr(function, "func", function))  # of a partial, what it calls
    called = function if hasattr(function, "__globals__") else getattr(type(function), "__call__", None)  # noqa: B004
    return getattr(called, "__globals__", {})


def kind_of(parameter: Parameter, scope: dict[str, Any]) -> Any:
    """Read the annotation of a parameter; one that means nothing is anything."""
    if parameter.annotation is Parameter.empty:
        return Any
    annotated: Any = SimpleNamespace(__annotations__={"it": parameter.annotation})
    try:
        return typing.get_type_hints(annotated, scope, include_extras=True)["it"]
    except Exception:  # noqa: BLE001 - an annotation is code: a name that only a type checker knows, or anything else
        return Any


def _describe(kinds: Mapping[str, Any]) -> tuple[dict[str, Schema], dict[str, Schema]]:
    """Describe types, and what they share; those that cannot be described, as anything."""
    try:
        return _described(kinds)
    except Exception:  # noqa: BLE001 - whatever a type is made of: the others are described without it
        known = {name: kind if _can_be_described(kind) else Any for name, kind in kinds.items()}
    try:
        return _described(known)
    except Exception:  # noqa: BLE001 - each of them can be, but not together
        return {name: {} for name in kinds}, {}


def _can_be_described(kind: Any) -> bool:
    try:
        _described({"it": kind})
    except Exception:  # noqa: BLE001 - as above
        return False
    return True


def _described(kinds: Mapping[str, Any]) -> tuple[dict[str, Schema], dict[str, Schema]]:
    foreign: dict[str, Schema] = {}

    def take_over(prefix: str, describes: Callable[..., Schema]) -> Schema:
        """Take a schema that has names of its own for its parts, and keep them apart from all others."""
        prefix = re.sub(r"\W", "_", prefix)
        schema = describes(ref_template=_REF.format(prefix + "{model}"))
        foreign.update({prefix + name: inner for name, inner in schema.pop("$defs", {}).items()})
        return schema

    def describe(kind: Any) -> Schema:
        """Describe what msgspec does not know: a model of pydantic describes itself, with names of its own."""
        describes = getattr(kind, "model_json_schema", None)
        if describes is None:
            return _ANYTHING
        return take_over(f"{kind.__module__}.{kind.__qualname__}.", describes)

    models = {name: model for name, kind in kinds.items() if (model := model_of(kind)) is not None}
    made, shared = msgspec.json.schema_components(
        [Any if name in models else kind for name, kind in kinds.items()],
        schema_hook=describe,
        ref_template=_REF.format("{name}"),
    )
    told = dict(zip(kinds, made, strict=True))
    told.update({name: take_over(f"{name}.", model.schema) for name, model in models.items()})
    schemas = {name: _loosened(schema) for name, schema in told.items()}
    return schemas, {name: _loosened(schema) for name, schema in {**shared, **foreign}.items()}


def _loosened(schema: Any) -> Any:
    """Let pass what msgspec itself lets pass: an item of a set twice, a decimal as a number.

    Defaults are left out: nothing is checked by them, and that of a set is written in another order by each process.
    """
    if not isinstance(schema, dict):
        return schema  # true or false
    if schema == _ANYTHING:
        return {}
    loose = {keyword: _inside(keyword, value) for keyword, value in schema.items() if keyword not in _LEFT_OUT}
    if loose.get("format") == "decimal":
        loose["type"] = ["string", "number"]
    return loose


def _inside(keyword: str, value: Any) -> Any:
    if keyword in _ONE:
        return _loosened(value)
    if keyword in _SEVERAL:
        return [_loosened(each) for each in value]
    if keyword in _NAMED:
        return {name: _loosened(each) for name, each in value.items()}
    return value  # it may look like a schema: a constant, or an example


def _or_null(schema: Schema) -> Schema:
    if not schema or _NULL in schema.get("anyOf", ()) or None in schema.get("enum", ()):
        return schema
    return {"anyOf": [schema, _NULL]}
