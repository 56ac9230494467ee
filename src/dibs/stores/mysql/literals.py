"""Values as literals in a statement: there are no arrays, and a batch is one statement, not many.

Nothing here depends on ``sql_mode`` or on the connection's character set, which in a user's transaction are theirs:
text goes in quotes only if it is plain ASCII without quotes and backslashes, and everything else in hexadecimal.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_plain = re.compile(r"[ -&(-\[\]-~]*").fullmatch  # printable, but for ' and \
_plain_bytes = re.compile(rb"[ -&(-\[\]-~]*").fullmatch
_encode = msgspec.json.Encoder().encode

_CHUNK_BYTES = 256 * 1024  # of one statement's rows, before they are written out, which may double them


class Rows(tuple[tuple[Any, ...], ...]):
    """Rows after VALUES; a plain tuple is a list after IN."""

    __slots__ = ()


class Json(NamedTuple):
    """Rows for JSON_TABLE."""

    value: Any


def literal(value: Any) -> str:
    """Write a value out."""
    write = _WRITE.get(type(value))
    if write is not None:
        return write(value)
    if isinstance(value, str):  # a status, or another name of the domain's
        return _text(value)
    return _row(value) if value else "(NULL)"


def _text(value: str) -> str:
    return f"'{value}'" if _plain(value) else f"_utf8mb4 x'{value.encode().hex()}'"


def _bytes(value: bytes) -> str:
    return f"_binary'{value.decode('ascii')}'" if _plain_bytes(value) else f"x'{value.hex()}'"


def _float(value: float) -> str:
    text = repr(value)
    return text if "e" in text else text + "e0"  # else it would be a decimal, and rounded otherwise


def _row(values: Iterable[Any]) -> str:
    return f"({','.join(map(literal, values))})"


_WRITE: dict[type, Callable[[Any], str]] = {
    type(None): lambda _: "NULL",
    bool: lambda value: "TRUE" if value else "FALSE",
    int: str,
    float: _float,
    str: _text,
    bytes: _bytes,
    Rows: lambda value: ",".join(map(_row, value)),
    Json: lambda value: _text(_encode(value.value).decode()),
}


class Step(NamedTuple):
    """A statement and what is filled in."""

    sql: str
    bindings: tuple[Any, ...] = ()

    @property
    def text(self) -> str:
        """The statement as it is sent."""
        return self.sql % tuple(map(literal, self.bindings)) if self.bindings else self.sql


def step(sql: str, *bindings: Any) -> Step:
    """Make a step."""
    return Step(sql, bindings)


def chunks(rows: Iterable[tuple[Any, ...]]) -> Iterator[Rows]:
    """Split rows so that each statement stays far below what the server takes as one packet."""
    some: list[tuple[Any, ...]] = []
    size = 0
    for row in rows:
        weight = 64 + sum(len(value) for value in row if isinstance(value, (bytes, str)))
        if some and size + weight > _CHUNK_BYTES:
            yield Rows(some)
            some, size = [], 0
        some.append(row)
        size += weight
    if some:
        yield Rows(some)
