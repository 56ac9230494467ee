"""A URL, read."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from dibs.domain.errors import InvalidRequest, Problem

_MOST_CONNECTIONS = 1000
_PORT = 3306
_LONGEST = 3600.0
_SWITCH = {"yes": True, "no": False}


class Address(NamedTuple):
    """Where the database is, and how it is talked to."""

    name: str  # for messages: without a password
    host: str
    port: int
    user: str | None
    password: str
    database: str
    socket: str | None = None  # of this machine, in place of host and port
    ssl: bool = False
    ssl_ca: str | None = None  # whose signature the server must show
    pool: int = 10  # connections of one event loop, at most
    timeout: float = 10.0  # seconds that the other end may be silent, in the middle of something; on either end


def read(url: str) -> Address:
    """Read ``mysql://user:password@host:port/database?socket=/path&ssl=yes&ssl_ca=/path&pool=10&timeout=10``."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "localhost", parts.port or _PORT
    except ValueError as error:
        raise InvalidRequest([Problem("url", f"cannot be read: {error}")]) from None
    database = unquote(parts.path.strip("/"))
    problems: list[Problem] = []
    if not database or "/" in database:
        problems.append(
            Problem("url", "must end in the name of one database: mysql://user:password@host:3306/database")
        )
    options = {"pool": "10", "ssl": "no", "socket": "", "ssl_ca": "", "timeout": "10"}
    for key, value in parse_qsl(parts.query, keep_blank_values=True):
        if key not in options:
            problems.append(Problem("url", f"{key}: is no option; there are {', '.join(sorted(options))}"))
        options[key] = value
    pool, ssl = options["pool"], options["ssl"]
    if not pool.isdecimal() or not 1 <= int(pool) <= _MOST_CONNECTIONS:
        problems.append(Problem("url", f"pool={pool}: must be a number from 1 to {_MOST_CONNECTIONS}"))
    if ssl not in _SWITCH:
        problems.append(Problem("url", f"ssl={ssl}: must be yes or no"))
    timeout = _seconds(options["timeout"])
    if not 0 < timeout <= _LONGEST:
        problems.append(Problem("url", f"timeout={options['timeout']}: must be a number of seconds, up to an hour"))
    if problems:
        raise InvalidRequest(problems)
    return Address(
        f"mysql://{options['socket'] or f'{host}:{port}'}/{database}",
        host,
        port,
        None if parts.username is None else unquote(parts.username),
        unquote(parts.password or ""),
        database,
        options["socket"] or None,
        _SWITCH[ssl] or bool(options["ssl_ca"]),
        options["ssl_ca"] or None,
        int(pool),
        timeout,
    )


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
