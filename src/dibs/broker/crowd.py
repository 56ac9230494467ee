"""A crowd of workers that wait for the same: each job is for one of them, so a hint is answered at once by few.

Everyone hears a hint. Where a thousand processes wait, a thousand would ask, and all but one in vain. So who has heard
several in vain looks how many workers there are, and where there are many it draws lots: about ``ANSWERS`` of them
answer at once, the others when they would have looked in any case, within a polling interval. Those looks are spread
over the interval, so that in a crowd there is always one soon, should all who were drawn be busy.

Where few work nothing is drawn, though one of them may lose all races for an hour: it is the one that counts when the
others are busy.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from dibs.domain.errors import DibsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from dibs.clock import Clock
    from dibs.domain.job import ClaimRequest

IN_VAIN = 3
"""Hints in vain, one after the other, from which on it matters how many others heard them."""
ANSWERS = 10
"""How many of a crowd answer a hint, on the average: so many that there is hardly ever none."""
BELIEVED = 30.0
"""Seconds for which the number of workers is believed, ..."""
FOR_EACH = 0.2
"""... and so many more for each of them: so a crowd counts itself no more often for being larger."""
YOUNG = 4.0
"""Or as long as one has been there oneself, but for so many seconds at least: a crowd that begins is soon larger."""


class Crowd:
    """Those who wait for the same, here and elsewhere."""

    def __init__(self, clock: Clock, count: Callable[[ClaimRequest], Awaitable[int]]) -> None:
        self._clock, self._count = clock, count
        self._in_vain = 0
        self._workers = 1
        self._began = clock.monotonic()
        self._until = self._began  # whatever is known of the crowd is to be counted anew then

    def told(self, *, hinted: bool, found: bool) -> None:
        """Hear what came of a look."""
        if found:
            self._in_vain = 0
        elif hinted:
            self._in_vain += 1

    async def calls(self, request: ClaimRequest, here: int) -> bool:
        """Say whether to answer a hint at once, for so many as wait here: they are one to the store."""
        if self._in_vain < IN_VAIN:
            return True
        askers = await self.askers(request, here)
        return askers <= ANSWERS or self._clock.random.random() * askers < ANSWERS

    async def askers(self, request: ClaimRequest, here: int) -> float:
        """Say how many there are who ask the store for this, where so many as wait here are one of them."""
        now = self._clock.monotonic()
        if now >= self._until:
            await self._look(request)
            believed = min(BELIEVED + FOR_EACH * self._workers, max(YOUNG, now - self._began))
            self._until = self._clock.monotonic() + believed * self._clock.random.uniform(0.5, 1.0)
        return self._workers / max(1, here)

    async def _look(self, request: ClaimRequest) -> None:
        # If it cannot be counted, what is known is believed; whoever asks will see what is wrong.
        with suppress(DibsError):
            self._workers = await self._count(request)
