"""Keeps claims alive: every claim that is held is extended at a third of its lease, off the handler's loop."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Protocol

from dibs.clock import Bell
from dibs.domain.job import Extension, Outcome, Ref

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from dibs.broker.protocol import Broker
    from dibs.clock import Clock

logger = logging.getLogger("dibs")

BEATS = 3
"""Beats to a lease: two may fail before the lease is in danger."""
EARLY = 12
"""A claim that is due within this part of its lease goes along with the others, so that beats become fewer."""
LONGEST_RETRY = 1.0
"""Seconds until a beat that failed is tried again, at the most."""


class Handle(Protocol):
    """Something that was started in the background."""

    def done(self) -> bool:
        """Say whether it has ended."""
        ...


class Held:
    """One claim that is kept: since when its lease has been running, and whom to tell, on any thread, if it is lost."""

    __slots__ = ("due", "lease", "on_lost", "ref")

    def __init__(self, ref: Ref, lease: float, since: float, on_lost: Callable[[], None]) -> None:
        self.ref = ref
        self.lease = lease
        self.due = since + lease / BEATS
        self.on_lost = on_lost


class Keeper:
    """Extends all claims that are due in one call.

    It sleeps until the first of them is due, and is woken only for one that is due before that: short jobs come and go
    without its noticing. If it wakes and there is none, it ends.
    """

    def __init__(
        self,
        clock: Clock,
        broker: Callable[[], Broker],
        start: Callable[[Coroutine[Any, Any, None]], Handle],
    ) -> None:
        self._clock = clock
        self._broker = broker
        self._start = start
        self._lock = threading.Lock()
        self._bell = Bell(clock)
        self._held: dict[Held, None] = {}  # in the order in which they came, so that a run can be repeated
        self._running: Handle | None = None
        self._wakes_at = 0.0

    def hold(self, several: Sequence[Held]) -> None:
        """Keep claims from now on."""
        if not several:
            return
        due = min(held.due for held in several)
        with self._lock:
            self._held.update(dict.fromkeys(several))
            if self._running is None or self._running.done():
                self._wakes_at = due
                self._running = self._start(self._run())
            sooner = due < self._wakes_at
        if sooner:
            self._bell.ring()

    def drop(self, held: Held) -> None:
        """Keep it no longer. What a beat under way says about it is not heard any more."""
        with self._lock:
            self._held.pop(held, None)

    async def _run(self) -> None:
        while True:
            listener = self._bell.listen()  # before looking: a claim that comes while we look rings for us
            with self._lock:
                if not self._held:
                    # Race: a claim that comes as the keeper goes to rest. Both are decided under the lock.
                    self._running = None
                    listener.close()
                    return
                now = self._clock.monotonic()
                wakes_at = self._wakes_at = min(held.due for held in self._held)
                due = [held for held in self._held if held.due - held.lease / EARLY <= now]
            if wakes_at > now:
                await listener.wait(wakes_at - now)
                continue
            listener.close()
            await self._beat(due)

    async def _beat(self, due: list[Held]) -> None:
        began = self._clock.monotonic()
        outcomes: Iterable[Outcome]
        try:
            outcomes = await self._broker().extend([Extension(held.ref) for held in due])
        except Exception as error:  # noqa: BLE001 - whatever it was, the claims are not lost by it: try again
            logger.warning("%d claims could not be extended, trying again: %s", len(due), error)
            outcomes = [Outcome.BUSY] * len(due)
        lost: list[Held] = []
        with self._lock:
            for held, outcome in zip(due, outcomes, strict=True):
                if held not in self._held:
                    continue
                if outcome is Outcome.BUSY:
                    held.due = self._clock.monotonic() + self._soon(held.lease)
                elif outcome in {Outcome.LOST, Outcome.MISSING}:
                    self._held.pop(held, None)
                    lost.append(held)
                else:
                    held.due = began + held.lease / BEATS
        for held in lost:
            held.on_lost()

    def _soon(self, lease: float) -> float:
        """Draw when to try again: several times before the lease runs out, and not all at once."""
        return min(LONGEST_RETRY, lease / 15) * self._clock.random.uniform(0.5, 1.0)
