"""The part of JSON Schema that our OpenAPI document uses, to hold every answer of the tests to it."""

from __future__ import annotations

import re
from typing import Any

TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
KNOWN = {
    "$ref", "anyOf", "type", "properties", "required", "additionalProperties", "items", "enum", "minimum",
    "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern", "format", "title", "description", "default",
    "contentEncoding",
}  # fmt: skip


def faults(  # noqa: PLR0911 - one for each kind of schema
    value: Any, schema: dict[str, Any], document: dict[str, Any], at: str = "$"
) -> list[str]:
    """List what of a value does not fit its schema."""
    unknown = set(schema) - KNOWN
    assert not unknown, f"the checker does not know {unknown}"
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/components/schemas/")
        return faults(value, document["components"]["schemas"][name], document, at)
    if "anyOf" in schema:
        tried = [faults(value, option, document, at) for option in schema["anyOf"]]
        return [] if [] in tried else [f"{at} fits none: {tried}"]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{at}: {value!r} is none of {schema['enum']}"]
    if "type" in schema and not _is(value, schema["type"]):
        return [f"{at}: {value!r} is no {schema['type']}"]
    if isinstance(value, dict):
        return _of_object(value, schema, document, at)
    items = schema.get("items")
    if isinstance(value, list) and items is not None:
        return [fault for index, item in enumerate(value) for fault in faults(item, items, document, f"{at}[{index}]")]
    return []


def _of_object(value: dict[str, Any], schema: dict[str, Any], document: dict[str, Any], at: str) -> list[str]:
    found = [f"{at} lacks {name}" for name in schema.get("required", []) if name not in value]
    properties = schema.get("properties")
    more = schema.get("additionalProperties")
    for name, item in value.items():
        if properties is not None and name in properties:
            found += faults(item, properties[name], document, f"{at}.{name}")
        elif isinstance(more, dict):
            found += faults(item, more, document, f"{at}.{name}")
        elif properties is not None:
            found.append(f"{at}.{name} is not in the schema")
    return found


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, TYPES[kind])


def operation(document: dict[str, Any], method: str, path: str) -> dict[str, Any] | None:
    """Find what describes a call."""
    for template, methods in sorted(document["paths"].items(), key=lambda item: "{" in item[0]):
        pattern = re.sub(r"{\w+}", "[^/]+", re.sub("{(queue|name)}", ".+", template))
        if re.fullmatch(pattern, path) and method.lower() in methods:
            found: dict[str, Any] = methods[method.lower()]
            return found
    return None
