"""The pages for people: ``/``, until there is a dashboard, and ``/docs``. Plain, without anything from outside."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html import escape
from typing import Any

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 4rem auto; padding: 0 1rem; }
code { background: #8882; padding: .1em .3em; border-radius: .2em; }
h2 { font-size: 1.1rem; margin: 2.5rem 0 0; }
table { border-collapse: collapse; }
td, th { text-align: left; vertical-align: top; padding: .1rem 1rem .1rem 0; font-weight: normal; }
"""

_HASH = b64encode(sha256(_STYLE.encode()).digest())

HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'sha256-%s'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
        % _HASH,
    ),
    (b"referrer-policy", b"no-referrer"),
)


def _page(title: str, body: str) -> bytes:
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>{_STYLE}</style>
{body}
</html>
""".encode()


PAGE = _page(
    "dibs",
    """<h1>dibs</h1>
<p>A job queue is served here. Its calls are described <a href="docs">for people</a> and in
<a href="openapi.json">openapi.json</a>; each needs an API key in <code>X-API-Key</code>, which
<code>dibs keys create</code> makes.</p>
<p>Whether it is <a href="health">alive</a>, and whether its <a href="ready">store answers</a>.</p>""",
)


def docs(document: dict[str, Any]) -> bytes:
    """Write the OpenAPI document down for people."""
    calls = [
        _call(method, path, operation, document["components"]["schemas"])
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    head = f"<h1>dibs over HTTP</h1><p>{escape(document['info']['description'])}</p>"
    return _page("dibs over HTTP", head + "".join(calls))


def _call(method: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    fields = [*operation.get("parameters", []), *_fields(operation, schemas)]
    rows = "".join(
        f"<tr><td><code>{escape(field['name'])}</code><td>{escape(field['in'])}"
        f"<td>{escape(_kind(field['schema'], schemas))}<td>{escape(field.get('description', ''))}"
        for field in fields
    )
    answers = ", ".join(f"{status} {answer['description']}" for status, answer in operation["responses"].items())
    return (
        f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
        f"<p>{escape(operation['summary'])} {escape(operation.get('description', ''))}</p>"
        f"<table>{rows}</table><p>Answers {escape(answers)}.</p>"
    )


def _fields(operation: dict[str, Any], schemas: dict[str, Any]) -> list[dict[str, Any]]:
    """List the fields of what is sent; of several kinds, those of the first, which is one job."""
    if "requestBody" not in operation:
        return []
    [content] = operation["requestBody"]["content"].values()
    schema = content["schema"]
    named = schemas[schema.get("anyOf", [schema])[0]["$ref"].rpartition("/")[2]]
    required = named.get("required", [])
    return [
        {
            "name": name,
            "in": "body, required" if name in required else "body",
            "schema": field,
            "description": field.get("description", ""),
        }
        for name, field in named["properties"].items()
    ]


def _kind(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    if "$ref" in schema:
        return _kind(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(one, schemas) for one in schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(str(one) for one in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'], schemas)}" if schema.get("items") else "list"
    return str(schema.get("type", "anything"))
