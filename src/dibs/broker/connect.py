"""From a URL to the store or the server that it names; each is imported only when it is named."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from dibs.broker.local import LocalBroker
from dibs.domain.errors import InvalidRequest, NotSupported, Problem

if TYPE_CHECKING:
    from dibs.broker.http import Remote
    from dibs.broker.protocol import Broker
    from dibs.broker.rates import Meter
    from dibs.clock import Clock
    from dibs.domain.settings import Config
    from dibs.store import Store

_SCHEME = re.compile(r"([a-z][a-z0-9+]*)://")
SCHEMES = ("memory://", "sqlite:///", "postgresql://", "mysql://", "redis://", "redis+cluster://", "http://")


def is_server(url: str) -> bool:
    """Say whether a URL names a server, and no store."""
    return url.startswith(("http://", "https://"))


def open_server(url: str, api_key: str | None, clock: Clock) -> Remote:
    """Make what talks to the server that a URL names; it connects when it is first used."""
    from dibs.broker.http import Remote

    return Remote(url, api_key, clock)


def broker_over(url: str, opened: Store | Remote, clock: Clock, config: Config, meter: Meter) -> Broker:
    """Make a broker for the running loop, over what was opened by that URL."""
    if is_server(url):
        from dibs.broker.http import HttpBroker

        return HttpBroker(cast("Remote", opened), clock, config)
    return LocalBroker(cast("Store", opened), clock, config, meter)


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
    if is_server(url):
        raise NotSupported(f"{url} is a server, and this needs a store", hint="Name the store that it serves.")
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
