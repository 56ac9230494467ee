"""A URL, read: what is PostgreSQL's own goes to the driver as it is, what is ours is taken out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from dibs.domain.errors import InvalidRequest, Problem

_MOST_CONNECTIONS = 1000
_MOST_SECONDS = 3600.0
_SWITCH = {"yes": True, "no": False}


class Address(NamedTuple):
    """Where the database is, and how it is talked to."""

    dsn: str
    name: str  # for messages: without a password
    pool: int = 10  # connections of one event loop, at most
    prepared: bool = True  # false behind a PgBouncer in transaction mode that does not keep prepared statements
    listen: bool = True  # false where LISTEN does not work: behind PgBouncer in transaction mode
    timeout: float = 10.0  # seconds that the other end may be silent, in the middle of something; on either end


def read(url: str) -> Address:
    """Read ``postgresql://user:password@host:port/database?pool=10&prepared=no&listen=no&timeout=10``."""
    try:
        parts = urlsplit(url)
        host = f"{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}"
    except ValueError as error:
        raise InvalidRequest([Problem("url", f"cannot be read: {error}")]) from None
    problems: list[Problem] = []
    ours: dict[str, Any] = {}
    rest = []
    for key, value in parse_qsl(parts.query, keep_blank_values=True):
        if key not in _OURS:
            rest.append((key, value))
            continue
        ours[key] = _OURS[key](value)
        if ours[key] is None:
            problems.append(Problem("url", f"{key}={value}: must be {_MUST_BE[key]}"))
    if problems:
        raise InvalidRequest(problems)
    dsn = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(rest), ""))
    return Address(dsn, f"postgresql://{host}{parts.path}", **ours)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and 1 <= int(text) <= _MOST_CONNECTIONS else None


def _seconds(text: str) -> float | None:
    plain = re.fullmatch(r"\d{1,6}(\.\d{1,6})?", text)
    return float(text) if plain and 0 < float(text) <= _MOST_SECONDS else None


_OURS: dict[str, Callable[[str], object]] = {
    "pool": _number,
    "prepared": _SWITCH.get,
    "listen": _SWITCH.get,
    "timeout": _seconds,
}
_MUST_BE = {
    "pool": f"a number from 1 to {_MOST_CONNECTIONS}",
    "prepared": "yes or no",
    "listen": "yes or no",
    "timeout": "a number of seconds, up to an hour",
}
