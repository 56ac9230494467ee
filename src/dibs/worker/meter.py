"""What a worker counts: each claim once, by how it has ended; and handlers, while they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from dibs.domain.job import Outcome

if TYPE_CHECKING:
    from dibs.broker.protocol import Ending
    from dibs.claim import Claim
    from dibs.store import Written

OUTCOMES = ("completed", "retried", "failed", "released", "lost")
_PAST = {"complete": "completed", "fail": "failed", "release": "released"}


class Meter(Protocol):
    """Where the numbers go. Everything is told on the worker's loop."""

    def begun(self, claim: Claim) -> None:
        """A handler begins."""
        ...

    def left(self, claim: Claim) -> None:
        """It has ended, or was given up."""
        ...

    def ended(self, task: str, outcome: str) -> None:
        """A claim has ended: one of ``OUTCOMES``."""
        ...


class Counting:
    """Tells a meter of each claim, whoever has ended it: the worker, the handler itself, or someone else."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._open: set[Claim] = set()  # those that run, and of whose end the store will not tell

    def begun(self, claim: Claim) -> None:
        """A handler begins."""
        self._open.add(claim)
        self._meter.begun(claim)

    def settles(self, claim: Claim) -> None:
        """Its end is on its way."""
        self._open.discard(claim)

    def left(self, claim: Claim) -> None:
        """A handler has ended; if nothing is on its way, the claim has ended as well."""
        self._meter.left(claim)
        if claim not in self._open:
            return
        self._open.discard(claim)
        if claim.lost:
            self.lost(claim)
        elif claim.verb is not None:
            self._meter.ended(claim.task, _PAST[claim.verb])

    def lost(self, claim: Claim) -> None:
        """A claim was taken over before it was started, or while it ran."""
        self._meter.ended(claim.task, "lost")

    def written(self, claim: Claim, ending: Ending, written: Written) -> None:
        """The store has said what became of it."""
        if written.outcome not in {Outcome.APPLIED, Outcome.REPEATED}:
            outcome = "lost"
        elif ending.verb == "fail" and written.will_retry:
            outcome = "retried"
        else:
            outcome = _PAST[ending.verb]
        self._meter.ended(claim.task, outcome)
