"""How many requests a key may send: windows of a minute, each beginning with the first request in it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from dibs.domain.errors import RateLimited

if TYPE_CHECKING:
    from dibs.clock import Clock
    from dibs.server.auth import Caller

WINDOW = 60.0
"""Seconds."""

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
    """Counts the requests of each key, in this process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._windows: dict[str, tuple[float, int]] = {}

    def spend(self, caller: Caller) -> Spent:
        """Count one request."""
        rate = caller.rate
        if rate is None:
            return _FREE
        now = self._clock.monotonic()
        began, count = self._windows.get(caller.id, (now, 0))
        if now - began >= WINDOW:
            began, count = now, 0
        left = math.ceil(began + WINDOW - now)
        refused = count >= rate
        if not refused:
            count += 1
            self._windows[caller.id] = (began, count)
        headers = [
            (b"ratelimit-policy", b'"key";q=%d;w=%d' % (rate, WINDOW)),
            (b"ratelimit", b'"key";r=%d;t=%d' % (rate - count, left)),
        ]
        if not refused:
            return Spent(headers, None)
        return Spent([*headers, (b"retry-after", b"%d" % left)], TooMany(rate, left))


_FREE = Spent([], None)
