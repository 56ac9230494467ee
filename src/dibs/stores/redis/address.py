"""A URL, read."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from dibs.domain.errors import InvalidRequest, Problem

_MOST_CONNECTIONS = 1000
_MOST_SECONDS = 3600.0
_MOST_DATABASES = 1_000_000
_PORT = 6379
_PREFIX = re.compile(r"[A-Za-z0-9_.:-]{1,64}\Z")


class Address(NamedTuple):
    """Where the server is, and how it is talked to."""

    name: str  # for messages: without a password
    host: str
    port: int
    database: int = 0
    user: str | None = None
    password: str | None = None
    tls: bool = False
    tls_ca: str | None = None  # whose signature the server must show; none: any that this machine trusts
    prefix: str = "dibs"  # of all keys
    pool: int = 10  # connections of one event loop, at most
    timeout: float = 10.0  # seconds that the other end may be silent, in the middle of something


def read(url: str) -> Address:
    """Read ``redis://user:password@host:port/database?prefix=dibs&pool=10&timeout=10``; ``rediss``: ``&tls_ca=``."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "localhost", parts.port or _PORT
    except ValueError as error:
        raise InvalidRequest([Problem("url", f"cannot be read: {error}")]) from None
    tls = parts.scheme == "rediss"
    problems: list[Problem] = []
    database = parts.path.strip("/") or "0"
    if not database.isdecimal() or int(database) > _MOST_DATABASES:
        problems.append(Problem("url", "must end in the number of a database, or in nothing: redis://host:6379/0"))
    options = {"prefix": "dibs", "pool": "10", "timeout": "10", **({"tls_ca": ""} if tls else {})}
    for key, value in parse_qsl(parts.query, keep_blank_values=True):
        if key not in options:
            problems.append(Problem("url", f"{key}: is no option; there are {', '.join(sorted(options))}"))
        options[key] = value
    if not _PREFIX.match(options["prefix"]):
        problems.append(Problem("url", f"prefix={options['prefix']}: must be 1 to 64 of A-Z a-z 0-9 _ . : -"))
    pool = options["pool"]
    if not pool.isdecimal() or not 1 <= int(pool) <= _MOST_CONNECTIONS:
        problems.append(Problem("url", f"pool={pool}: must be a number from 1 to {_MOST_CONNECTIONS}"))
    timeout = options["timeout"]
    if not re.fullmatch(r"\d{1,6}(\.\d{1,6})?", timeout) or not 0 < float(timeout) <= _MOST_SECONDS:
        problems.append(Problem("url", f"timeout={timeout}: must be a number of seconds, up to an hour"))
    if problems:
        raise InvalidRequest(problems)
    return Address(
        f"{parts.scheme}://{host}:{port}/{int(database)}",
        host,
        port,
        int(database),
        unquote(parts.username) if parts.username else None,
        None if parts.password is None else unquote(parts.password),
        tls,
        options.get("tls_ca") or None,
        options["prefix"],
        int(pool),
        float(timeout),
    )
