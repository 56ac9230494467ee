"""What became of a world."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import NamedTuple

import msgspec

from dibs.testing.history import Report
from dibs.testing.sim.plan import Fault, Plan


class Moment(NamedTuple):
    """One line of what happened: when, to whom, what."""

    at: float
    process: str
    what: str
    fault: Fault | None = None
    step: int = 0


class Result(msgspec.Struct, frozen=True):
    """A world after its end."""

    plan: Plan
    steps: int  # calls to the store, all in all
    seconds: float  # virtual ones
    trace: tuple[Moment, ...]
    report: Report | None  # none: it did not come to an end
    trouble: tuple[str, ...] = ()  # what must not happen in any world, besides broken promises

    @property
    def ok(self) -> bool:
        """Say whether every promise was kept."""
        return not self.trouble and self.report is not None and self.report.ok

    @property
    def faults(self) -> Counter[Fault]:
        """Count what went wrong on purpose."""
        return Counter(moment.fault for moment in self.trace if moment.fault is not None)

    @property
    def digest(self) -> str:
        """Give a number that is the same for two runs which did the same."""
        return hashlib.blake2b(repr(self.trace).encode(), digest_size=16).hexdigest()

    def __str__(self) -> str:
        lines = [str(self.plan), *self.trouble]
        if self.report is not None and not self.report.ok:
            lines.append(str(self.report))
        return "\n".join(lines) if not self.ok else f"{self.plan}: {self.steps} steps, every promise kept"
