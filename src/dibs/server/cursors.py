"""Cursors: where a page ended, sealed, so that only one that was handed out is taken, and only for the same list."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Unreadable
from hashlib import sha256
from hmac import compare_digest, digest
from typing import TYPE_CHECKING

import msgspec

from dibs.domain.errors import InvalidRequest, Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.broker.protocol import Broker
    from dibs.clock import Clock
    from dibs.wire.asked import TaskQuery

SECRETS = "secret/"
"""Documents of this prefix are no one's business but the servers' of a store."""
_NAME = SECRETS + "cursors"
_SEAL = 16  # bytes
_MOST = 200  # characters


class Cursors:
    """Seals cursors with a secret that all servers of a store share, so that any of them takes another's."""

    def __init__(self, broker: Callable[[], Broker], clock: Clock) -> None:
        self._broker = broker
        self._clock = clock
        self._secret: bytes | None = None

    async def seal(self, place: str | None, asked: TaskQuery) -> str | None:
        """Make a cursor of the place that a page ended at."""
        if place is None:
            return None
        sealed = await self._seal(place.encode(), asked) + place.encode()
        return urlsafe_b64encode(sealed).decode().rstrip("=")

    async def open(self, asked: TaskQuery) -> str | None:
        """Say where to go on; refuse what was not sealed here, or was for another list."""
        cursor = asked.cursor
        if cursor is None:
            return None
        cursor = cursor[:_MOST]
        try:
            sealed = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        except (ValueError, Unreadable):
            raise _forged() from None
        seal, place = sealed[:_SEAL], sealed[_SEAL:]
        if not place or not compare_digest(seal, await self._seal(place, asked)):
            raise _forged()
        return place.decode()

    async def _seal(self, place: bytes, asked: TaskQuery) -> bytes:
        # The size of a page may change on the way; what is looked for, and in which order, may not.
        about = msgspec.json.encode(msgspec.structs.replace(asked, cursor=None, limit=1))
        return digest(await self._shared(), place + b"\0" + about, sha256)[:_SEAL]

    async def _shared(self) -> bytes:
        """Read the secret, or make it. Race: two servers start at once; one of their secrets is kept."""
        while self._secret is None:
            broker = self._broker()
            found = await broker.read(_NAME) or await broker.put(_NAME, self._clock.random_bytes(32), expect=0)
            self._secret = None if found is None else found.value
        return self._secret


def _forged() -> InvalidRequest:
    return InvalidRequest([Problem("cursor", "is not one that a page of this list came with")])
