"""What the event streams of one server share: one look at the queues a second, however many streams there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.broker.protocol import Broker
    from dibs.clock import Clock
    from dibs.domain.job import QueueInfo

LOOK_EVERY = 1.0
"""Seconds between two looks at the store."""


class Feed:
    """The queues, as they were a moment ago."""

    def __init__(self, broker: Callable[[], Broker], clock: Clock) -> None:
        self._broker = broker
        self._clock = clock
        self._seen: list[QueueInfo] = []
        self._seen_at: float | None = None
        self.streams = 0

    async def queues(self) -> list[QueueInfo]:
        """List the queues, as they were a second ago at the most."""
        now = self._clock.monotonic()
        if self._seen_at is None or now - self._seen_at >= LOOK_EVERY:
            self._seen = await self._broker().queues()
            self._seen_at = now
        return self._seen
