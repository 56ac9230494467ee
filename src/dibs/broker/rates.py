"""How fast queues are worked off: every process that claims tells how much, in a document that does not outlive it.

No store could tell at a cost that stays the same: none keeps jobs in the order of their claims, and an index for that
would be paid for by every claim. So each process counts what it claims and, with its maintenance, says so every ten
seconds in which there is something to say. One that lives for less, such as a claim from a shell, is not counted.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from dibs.domain.retry import micros

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.clock import Clock
    from dibs.domain.job import Job
    from dibs.store import Store

RATES = "rate/"
"""Documents of this prefix tell what processes have claimed: ``rate/`` and a name that no other process has."""

STEP = 10.0
"""Seconds between two tellings."""
STEPS = 6
"""How many of them are told of: a minute."""

_KEPT = micros(2.5 * STEP)  # one that was killed is counted for no longer

_decoder = msgspec.json.Decoder(dict[str, int])


class Meter:
    """Counts what one process claims, for the brokers of all its event loops."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._steps: dict[int, Counter[str]] = {}  # by number; only the last of them
        self._name = ""

    @property
    def name(self) -> str:
        """What its process is known by."""
        self._name = self._name or self._clock.token()
        return self._name

    def claimed(self, answers: Sequence[Sequence[Job]]) -> None:
        """Count jobs that were handed out, by queue."""
        with self._lock:
            step = self._steps.get(now := self.step())
            if step is None:
                self._forget(now)
                step = self._steps[now] = Counter()
            for jobs in answers:
                for job in jobs:
                    step[job.queue] += 1

    def step(self) -> int:
        """Number the time."""
        return int(self._clock.monotonic() // STEP)

    def minute(self) -> dict[str, int]:
        """Say how many jobs of each queue were claimed in the minute that ended with the last whole step."""
        with self._lock:
            now = self.step()
            self._forget(now)
            return dict(sum((step for number, step in self._steps.items() if number != now), Counter()))

    def _forget(self, now: int) -> None:
        for number in [number for number in self._steps if number < now - STEPS]:
            del self._steps[number]


class Rates:
    """Tells what a meter has counted, and reads what all have told."""

    def __init__(self, store: Store, meter: Meter) -> None:
        self._store = store
        self._meter = meter
        self._step = meter.step()
        self._told = False

    async def tell(self) -> None:
        """Say what was claimed, if another step is over; and that nothing was, once."""
        if (step := self._meter.step()) == self._step:
            return
        self._step = step
        minute = self._meter.minute()
        if minute or self._told:
            value = msgspec.json.encode(minute) if minute else None
            await self._store.put(RATES + self._meter.name, value, keep_us=_KEPT)
        self._told = bool(minute)

    async def read(self) -> Counter[str]:
        """Say how many jobs of each queue were claimed in a minute, by all who tell."""
        found: Counter[str] = Counter()
        for document in await self._store.documents(RATES):
            found.update(_decoder.decode(document.value))
        return found
