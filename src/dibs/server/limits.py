"""How many requests a key may send a minute, and what it is told of that."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from dibs.domain.errors import RateLimited
from dibs.server.windows import WINDOW

if TYPE_CHECKING:
    from dibs.clock import Clock
    from dibs.server.auth import Caller
    from dibs.server.windows import Windows

Headers = list[tuple[bytes, bytes]]


class TooMany(RateLimited):
    """The key's requests of this minute are used up."""

    def __init__(self, rate: int, wait: int) -> None:
        self.wait = wait
        super().__init__(
            f"this key may send {rate} requests a minute, and they are used up for {wait} s",
            hint="Wait as long as Retry-After says, or make a key with more: `dibs keys create --rate 1000/min`, "
            "or `--rate unlimited`.",
        )


class Spent(NamedTuple):
    """What a request leaves of its key's minute."""

    headers: Headers
    refusal: TooMany | None


class Limits:
    """Counts the requests of each key."""

    def __init__(self, clock: Clock, windows: Windows) -> None:
        self._clock = clock
        self._windows = windows

    def spend(self, caller: Caller) -> Spent:
        """Count one request."""
        rate = caller.rate
        if rate is None:
            return _FREE
        now = self._clock.monotonic()
        window = self._windows.count(caller.id, rate, now)
        left = math.ceil(window.began + WINDOW - now)
        headers = [
            (b"ratelimit-policy", b'"key";q=%d;w=%d' % (rate, WINDOW)),
            (b"ratelimit", b'"key";r=%d;t=%d' % (max(0, rate - window.used), left)),
        ]
        if not window.refused:
            return Spent(headers, None)
        return Spent([*headers, (b"retry-after", b"%d" % left)], TooMany(rate, left))


_FREE = Spent([], None)
