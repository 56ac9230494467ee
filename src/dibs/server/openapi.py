"""The OpenAPI 3.1 document, made from the table of routes and the structs that they take and answer."""

from __future__ import annotations

import re
import types
import typing
from http import HTTPStatus
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import msgspec

from dibs.server.route import EVENTS, JSON
from dibs.wire.asked import JobId, Label, Name, WorkerId
from dibs.wire.refused import MEDIA, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dibs.server.route import Route

_REF = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"{(\w+)(?::\w+)?}")
_IN_PATH = {
    "/api/tasks/": JobId,
    "/api/workers/": WorkerId,
    "/api/queues/": Name,
    "/api/batches/": Label,
    "/api/schedules/": Name,
}
_DESCRIPTION = """Jobs are enqueued, claimed by one worker at a time, and settled. A claim is named by the job's id, its
fence and its lease_token: nothing less extends or settles it. Errors are problem+json with a stable `code`."""


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """Describe the routes."""
    kinds = list(dict.fromkeys([Problem, *(kind for route in routes for kind in _kinds(route))]))
    _, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    named = {route.operation: route for route in routes}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(described(route.path), {})[route.method.lower()] = _operation(route, named)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "dibs",
            "version": _version(),
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def described(path: str) -> str:
    """Write a path as OpenAPI does: which characters a part may have is said elsewhere."""
    return _PARAMETER.sub(r"{\1}", path)


def _kinds(route: Route) -> list[Any]:
    answers = [kind for answer in route.answers.values() for kind in _parts(answer)]
    return [kind for kind in [*route.bodies, *answers] if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]


def _parts(kind: Any) -> tuple[Any, ...]:
    return typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)


def _operation(route: Route, named: Mapping[str, Route]) -> dict[str, Any]:
    links = {name: _link(named[name]) for name in route.leads_to}
    also = {"links": links} if links else {}
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": route.operation,
        "responses": {
            **{
                str(status): {**_answer(route, status, kind), **also}
                for status, kind in (route.answers or {200: None}).items()
            },
            **{str(status): _refusal(status) for status in _refusals(route)},
        },
    }
    if parameters := [*_in_path(route), *_in_query(route), *_in_header(route)]:
        operation["parameters"] = parameters
    if route.bodies:
        operation["requestBody"] = {
            "required": not route.may_be_empty,
            "content": {JSON: {"schema": _schema(route.bodies)}},
        }
    if route.scope is not None:
        operation["security"] = [{"key": []}, {"bearer": []}]
        operation["description"] = f"Needs a key with the scope `{route.scope}` or `admin`."
    return operation


def _link(target: Route) -> dict[str, Any]:
    """Say how to go on with a task that was answered: by its id, and by its claim where that is needed."""
    link: dict[str, Any] = {"operationId": target.operation, "parameters": {"id": "$response.body#/task/id"}}
    if any(field.name == "fence" for kind in target.bodies for field in msgspec.structs.fields(kind)):
        link["requestBody"] = {name: f"$response.body#/task/{name}" for name in ("fence", "lease_token")}
    return link


def _refusals(route: Route) -> list[int]:
    usual = [401, 403, 429, 503] if route.scope is not None else []
    if route.bodies:
        usual += [400, 408, 413, 415]
    elif route.query is not None or "{" in route.path:
        usual.append(400)
    return sorted({*usual, *route.refuses})


def _answer(route: Route, status: int, kind: Any) -> dict[str, Any]:
    described = {"description": HTTPStatus(status).phrase}
    if route.media == EVENTS:  # a schema would be that of one event; 3.1 has no words for it
        return {**described, "content": {EVENTS: {}}}
    if kind is None:
        return {**described, "content": {route.media.partition(";")[0]: {"schema": {"type": "string"}}}}
    return {**described, "content": {route.media: {"schema": _schema(_parts(kind))}}}


def _refusal(status: int) -> dict[str, Any]:
    content = {MEDIA: {"schema": _schema((Problem,))}}
    refused: dict[str, Any] = {"description": HTTPStatus(status).phrase, "content": content}
    if status in {429, 503}:
        refused["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds to wait."}}
    return refused


def _schema(kinds: Sequence[Any]) -> dict[str, Any]:
    schemas = [
        {"$ref": _REF.format(name=kind.__name__)} if issubclass(kind, msgspec.Struct) else {"type": "object"}
        for kind in kinds
    ]
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _in_path(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": msgspec.json.schema(_named(route.path))}
        for name in _PARAMETER.findall(route.path)
    ]


def _named(path: str) -> Any:
    """Say what is named by the one parameter that a path has."""
    return next(kind for start, kind in _IN_PATH.items() if path.startswith(start))


def _in_query(route: Route) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    _, components = msgspec.json.schema_components([route.query], ref_template=_REF)
    properties = components[route.query.__name__]["properties"]
    return [
        {"name": name, "in": "query", "required": False, "schema": _inlined(schema, components)}
        for name, schema in properties.items()
    ]


def _inlined(schema: Any, components: dict[str, Any]) -> Any:
    """Put what a schema refers to in its place: what only a query uses is not among the components."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            return _inlined(components[schema["$ref"].rpartition("/")[2]], components)
        return {key: _inlined(value, components) for key, value in schema.items()}
    return [_inlined(item, components) for item in schema] if isinstance(schema, list) else schema


def _in_header(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "header", "schema": {"type": "string"}, "description": text}
        for name, text in route.headers.items()
    ]


def _version() -> str:
    try:
        return version("dibs-queue")
    except PackageNotFoundError:  # run from a checkout that was not installed
        return "0+unknown"
