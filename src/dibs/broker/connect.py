"""From a URL to the store it names; each is imported only when it is named."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dibs.domain.errors import InvalidRequest, Problem

if TYPE_CHECKING:
    from dibs.clock import Clock
    from dibs.store import Store

_SCHEME = re.compile(r"([a-z][a-z0-9+]*)://")
SCHEMES = ("memory://", "sqlite:///")


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
    raise InvalidRequest([Problem("url", f"{url!r} names no store that is built in; use {' or '.join(SCHEMES)}…")])
