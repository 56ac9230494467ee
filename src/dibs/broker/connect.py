"""From a URL to the store it names; each is imported only when it is named."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dibs.domain.errors import InvalidRequest, NotSupported, Problem

if TYPE_CHECKING:
    from dibs.clock import Clock
    from dibs.store import Store

_SCHEME = re.compile(r"([a-z][a-z0-9+]*)://")
SCHEMES = ("memory://", "sqlite:///", "postgresql://", "mysql://", "redis://", "redis+cluster://")


def open_store(url: str, clock: Clock) -> Store:
    """Make the store that a URL names; it connects when it is first used."""
    match = _SCHEME.match(url)
    scheme = match[1] if match else ""
    if scheme == "memory":
        from dibs.stores.memory import MemoryStore

        return MemoryStore(clock)
    if scheme == "sqlite":
        from dibs.stores.sqlite import from_url

        return from_url(url, clock)
    if scheme in {"postgresql", "postgres"}:
        return _postgres(url, clock)
    if scheme in {"mysql", "mariadb"}:
        return _mysql(url, clock)
    if scheme in {"redis", "rediss", "redis+cluster", "rediss+cluster"}:
        return _redis(url, clock, cluster=scheme.endswith("+cluster"))
    raise InvalidRequest([Problem("url", f"{url!r} names no store that is built in; use {' or '.join(SCHEMES)}…")])


def _postgres(url: str, clock: Clock) -> Store:
    try:
        from dibs.stores.postgres import from_url
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise NotSupported("PostgreSQL needs asyncpg", hint="pip install 'dibs-queue[postgres]'") from None
    return from_url(url, clock)


def _mysql(url: str, clock: Clock) -> Store:
    try:
        from dibs.stores.mysql import from_url
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "asyncmy":
            raise
        raise NotSupported("MySQL and MariaDB need asyncmy", hint="pip install 'dibs-queue[mysql]'") from None
    return from_url(url, clock)


def _redis(url: str, clock: Clock, *, cluster: bool) -> Store:
    try:
        from dibs.stores import redis
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in {"redis", "hiredis"}:
            raise
        raise NotSupported("Redis needs redis-py and hiredis", hint="pip install 'dibs-queue[redis]'") from None
    return redis.cluster_from_url(url, clock) if cluster else redis.from_url(url, clock)
