"""From the bytes of a request to its fields: whatever is wrong with them is told by name, and nothing else happens."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import parse_qsl

import msgspec

from dibs.domain.errors import Problem, TooLarge
from dibs.domain.settings import MAX_BATCH_BYTES, MIB
from dibs.server.problems import Misfit, Stalled, WrongContent, misfit, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import Receive

MAX_BODY = MAX_BATCH_BYTES + MIB
"""Bytes: a full batch, and what is around its params."""
BODY_SECONDS = 30.0
"""How long a body may take to arrive."""
MAX_DEPTH = 200
"""Lists and objects in each other: far less than Python's readers bear, for others have to read the job as well."""
MAX_QUERY_FIELDS = 100
_LONG = 100


class Gone(Exception):
    """The client has hung up; no one reads an answer."""


async def read_body(receive: Receive, headers: dict[bytes, bytes]) -> bytes:
    """Read the whole body, unless it is too large or too slow."""
    if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        raise WrongContent("a compressed body is not taken")
    length = headers.get(b"content-length", b"")
    if length.isdigit() and int(length) > MAX_BODY:
        raise TooLarge("body", int(length), MAX_BODY)
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        body: bytes = message.get("body", b"")
        if len(body) > MAX_BODY:
            raise TooLarge("body", len(body), MAX_BODY)
        return body
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _read_on(message, receive)
    except TimeoutError:
        raise Stalled from None


async def _read_on(message: Any, receive: Receive) -> bytes:
    body = bytearray()
    while True:
        if message["type"] == "http.disconnect":
            raise Gone
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            raise TooLarge("body", len(body), MAX_BODY)
        if not message.get("more_body"):
            return bytes(body)
        message = await receive()


def parse(body: bytes, headers: dict[bytes, bytes]) -> Any:
    """Read the body, which has to say that it is JSON."""
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    # Asked for by name, since a web page of another site can send anything else without being allowed to.
    if kind != b"application/json":
        raise WrongContent(f"the Content-Type is {printable(kind.decode('latin-1'))!r}" if kind else "")
    return decode(body)


def decode(body: bytes) -> Any:
    """Read JSON. A field that is there twice is refused: no one knows which was meant."""
    try:
        value = _decoder.decode(body.decode())
    except UnicodeDecodeError as error:
        raise Misfit([Problem("body", f"is not UTF-8: byte {error.start}")]) from None
    except RecursionError:
        raise _too_deep() from None
    except json.JSONDecodeError as error:
        what = f"is not JSON: {error}" if body.strip() else "is empty; send a JSON object"
        raise Misfit([Problem("body", what)]) from None
    except ValueError:
        raise Misfit([Problem("body", "has a number with too many digits; send it as a text")]) from None
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH:  # else it cannot be that deep
        _check_depth(value)
    return value


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        inside = [item.values() if isinstance(item, dict) else item for item in level]
        level = [child for items in inside for child in items if isinstance(child, dict | list)]
        if not level:
            return
    raise _too_deep()


def _too_deep() -> Misfit:
    return Misfit([Problem("body", f"is nested too deeply; {MAX_DEPTH} levels at most")])


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise Misfit([Problem(printable(twice[:_LONG]) or "body", "is given twice")])
    return fields


def _no_number(text: str) -> NoReturn:
    raise Misfit([Problem("body", f"{text} is not a JSON number")])


_decoder = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_number)


def fit(value: Any, kinds: Sequence[type[Any]]) -> Any:
    """Make of JSON what a route takes; of several kinds, the last one is for a body with ``tasks``."""
    kind = kinds[-1] if isinstance(value, dict) and "tasks" in value else kinds[0]
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise misfit(error, kind) from None
    except UnicodeEncodeError:
        raise Misfit([Problem("body", "has a field named with a lone surrogate")]) from None


def read_query(text: bytes, kind: type[Any]) -> Any:
    """Read the query string; a field may be given twice only if it takes a list."""
    try:
        pairs = parse_qsl(
            text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_QUERY_FIELDS
        )
    except ValueError:
        raise Misfit([Problem("query", "is not UTF-8, or has too many fields")]) from None
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in _lists(kind):
            fields.setdefault(name, []).append(value)
        elif name in fields:
            raise Misfit([Problem(name[:_LONG], "is given twice")])
        else:
            fields[name] = value
    try:
        return msgspec.convert(fields, kind, strict=False)
    except msgspec.ValidationError as error:
        raise misfit(error, kind, "query") from None


def _lists(kind: type[Any]) -> frozenset[str]:
    return frozenset(
        field.name
        for field in msgspec.structs.fields(kind)
        if isinstance(field.default, list | tuple) or field.default_factory is list
    )
