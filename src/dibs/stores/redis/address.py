"""A URL, read."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from dibs.domain.errors import InvalidRequest, Problem
from dibs.stores.redis.cluster.shards import PARTITIONS

_MOST_CONNECTIONS = 1000
_MOST_SECONDS = 3600.0
_MOST_DATABASES = 1_000_000
_PORT = 6379
_SEVERAL = re.compile(
    r"(?P<before>rediss?\+cluster://(?:[^/?#@]*@)?)(?P<hosts>[^/?#@]*,[^/?#@]*)(?P<after>.*)", re.DOTALL
)
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
    others: tuple[tuple[str, int], ...] = ()  # further nodes of a cluster that may be asked where it is
    partitions: tuple[tuple[str, int], ...] = ()  # over how many shards of it queues are to be spread ('' all)


def read(url: str) -> Address:
    """Read ``redis://user:password@host:port/database?prefix=dibs&pool=10&timeout=10``; ``rediss``: ``&tls_ca=``.

    A cluster is ``redis+cluster://user:password@host:port,host:port/?partitions=emails:12``, or ``rediss+cluster``.
    """
    url, others = _hosts(url)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "localhost", parts.port or _PORT
    except ValueError as error:
        raise InvalidRequest([Problem("url", f"cannot be read: {error}")]) from None
    tls, cluster = parts.scheme.startswith("rediss"), parts.scheme.endswith("+cluster")
    problems: list[Problem] = []
    database = parts.path.strip("/") or "0"
    if cluster and database != "0":
        problems.append(Problem("url", "must name no database: a cluster has one, redis+cluster://host:6379"))
    elif not database.isdecimal() or int(database) > _MOST_DATABASES:
        problems.append(Problem("url", "must end in the number of a database, or in nothing: redis://host:6379/0"))
    options = {"prefix": "dibs", "pool": "10", "timeout": "10"}
    options.update(({"tls_ca": ""} if tls else {}) | ({"partitions": ""} if cluster else {}))
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
    partitions = _partitions(options.get("partitions", ""), problems)
    if problems:
        raise InvalidRequest(problems)
    return Address(
        f"{parts.scheme}://{host}:{port}" + ("" if cluster else f"/{int(database)}"),
        host,
        port,
        0 if cluster else int(database),
        unquote(parts.username) if parts.username else None,
        None if parts.password is None else unquote(parts.password),
        tls,
        options.get("tls_ca") or None,
        options["prefix"],
        int(pool),
        float(timeout),
        others,
        partitions,
    )


def _hosts(url: str) -> tuple[str, tuple[tuple[str, int], ...]]:
    """Give a cluster's URL with its first host alone, and the others."""
    match = _SEVERAL.match(url)
    if match is None:
        return url, ()
    hosts = match["hosts"].split(",")
    others = [urlsplit(f"//{host}") for host in hosts[1:]]
    try:
        found = tuple((other.hostname or "localhost", other.port or _PORT) for other in others)
    except ValueError as error:
        raise InvalidRequest([Problem("url", f"cannot be read: {error}")]) from None
    return f"{match['before']}{hosts[0]}{match['after']}", found


def _partitions(text: str, problems: list[Problem]) -> tuple[tuple[str, int], ...]:
    """Read ``12`` (all queues) or ``emails:12,orders:3``."""
    found: list[tuple[str, int]] = []
    for part in text.split(",") if text else ():
        queue, _, number = part.rpartition(":")
        if not number.isdecimal() or int(number) not in PARTITIONS:
            numbers = ", ".join(map(str, PARTITIONS))
            problems.append(
                Problem("url", f"partitions={part}: must be one of {numbers}, or queue:number of some queues")
            )
        else:
            found.append((queue, int(number)))
    return tuple(found)
