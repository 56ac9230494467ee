"""A URL, read: what is PostgreSQL's own goes to the driver as it is, what is ours is taken out."""

from __future__ import annotations

import re
from typing import NamedTuple
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
    pool, timeout, switches, rest = 10, 10.0, {"prepared": True, "listen": True}, []
    for key, value in parse_qsl(parts.query, keep_blank_values=True):
        if key == "pool":
            if not value.isdecimal() or not 1 <= int(value) <= _MOST_CONNECTIONS:
                problems.append(Problem("url", f"pool={value}: must be a number from 1 to {_MOST_CONNECTIONS}"))
            else:
                pool = int(value)
        elif key == "timeout":
            if not re.fullmatch(r"\d{1,6}(\.\d{1,6})?", value) or not 0 < float(value) <= _MOST_SECONDS:
                problems.append(Problem("url", f"timeout={value}: must be a number of seconds, up to an hour"))
            else:
                timeout = float(value)
        elif key in switches:
            if value not in _SWITCH:
                problems.append(Problem("url", f"{key}={value}: must be yes or no"))
            else:
                switches[key] = _SWITCH[value]
        else:
            rest.append((key, value))
    if problems:
        raise InvalidRequest(problems)
    dsn = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(rest), ""))
    return Address(dsn, f"postgresql://{host}{parts.path}", pool, switches["prepared"], switches["listen"], timeout)
