"""What a world is made of: all of it follows from the seed, and may be cut down to what is needed to fail."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from random import Random
from typing import Final, TypeVar

import msgspec

T = TypeVar("T")


class Fault(StrEnum):
    """What can happen to a call on its way to the store and back, and to who made it."""

    REFUSED = "refused"  # busy, disk full, unreachable: an error, and nothing was done
    LOST = "reply lost"  # it was done, and the caller gets an error
    TWICE = "delivered twice"
    LATE = "late"  # it arrives, or its answer does, only after leases have run out
    PAUSED = "paused"  # the process stands still for a while
    CRASHED_BEFORE = "crashed before"
    CRASHED_WITHIN = "crashed within"  # in the midst of a transaction, if the store has such
    CRASHED_AFTER = "crashed after"
    FULL = "disk full"  # … or its disk was full there, in a store that has one
    JUMPED = "clock jumped"  # forward or back, by up to an hour


ALL: Final = tuple(Fault)
_MASK: Final = 2**64 - 1


class Luck:
    """Random numbers for one step: cheap to make, for there are many steps, and the same for the same seed."""

    __slots__ = ("_state",)

    def __init__(self, seed: int, step: int) -> None:
        self._state = (seed * 0x9E3779B97F4A7C15 + step * 0xD1B54A32D192ED03 + 1) & _MASK

    def random(self) -> float:
        """Draw from 0 up to 1."""
        self._state = state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        return ((state ^ (state >> 31)) >> 11) / 9007199254740992.0

    def uniform(self, low: float, high: float) -> float:
        """Draw from a range."""
        return low + (high - low) * self.random()

    def choice(self, values: Sequence[T]) -> T:
        """Draw one of several."""
        return values[int(self.random() * len(values))]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One world. Two runs of the same plan do the same, to the byte."""

    seed: int
    store: str = "memory"  # or sqlite
    steps: int = 500  # calls to the store until misfortune ceases and the rest is worked off
    faults: tuple[Fault, ...] = ALL
    without: frozenset[int] = frozenset()  # steps whose fault is left out
    workers: int | None = None  # fewer than the seed says
    jobs: int | None = None  # likewise

    def random(self, *about: object) -> Random:
        """Give the luck that goes with one part of the world, so that parts do not disturb each other."""
        return Random(f"{self.seed} {about}")

    def __str__(self) -> str:
        changed = [f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name != "seed"]
        defaults = [f"{name}={getattr(Plan(seed=0), name)!r}" for name in self.__struct_fields__ if name != "seed"]
        kept = [now for now, default in zip(changed, defaults, strict=True) if now != default]
        return f"Plan({', '.join([f'seed={self.seed}', *kept])})"
