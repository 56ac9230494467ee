"""What the handlers of a world did, held against what the store's log says became of their jobs.

The history checker sees calls to the store. It cannot know that a worker told the store something else than its handler
did: that is seen here, where both are known.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dibs.domain.audit import Item
from dibs.domain.errors import DibsError
from dibs.domain.job import Event, EventName, Job, Status
from dibs.domain.signals import Fail, Snooze
from dibs.testing.sim.loop import START

if TYPE_CHECKING:
    from dibs.claim import Claim

_BY_WORKER = frozenset({EventName.COMPLETED, EventName.RETRIED, EventName.FAILED, EventName.RELEASED})
_FAILURE = frozenset({EventName.RETRIED, EventName.FAILED})


class Run:
    """One handler, under one claim: how the job may end by it, and with which result."""

    def __init__(self) -> None:
        self.may: set[EventName] = set()
        self.results: list[object] = []


class Witness:
    """Sees every handler begin and end."""

    def __init__(self) -> None:
        self.trouble: list[str] = []
        self._runs: dict[tuple[str, int], Run] = {}

    def begins(self, claim: Claim) -> None:
        """Note that a handler was started."""
        key = (claim.id, claim.fence)
        if key in self._runs:
            self.trouble.append(f"two handlers ran under fence {claim.fence} of job {claim.id}")
        if claim.lost:
            self.trouble.append(f"a handler was started under fence {claim.fence} of job {claim.id}, known to be lost")
        self._runs[key] = Run()

    def completes(self, claim: Claim, result: object) -> None:
        """Note that a handler is about to complete its job, or has returned."""
        run = self._runs[claim.id, claim.fence]
        run.may.add(EventName.COMPLETED)
        run.results.append(result)

    def raises(self, claim: Claim, error: BaseException) -> None:
        """Note how a handler ended that did not return."""
        run = self._runs[claim.id, claim.fence]
        if isinstance(error, Snooze):
            run.may.add(EventName.RELEASED)
        elif isinstance(error, Fail):
            run.may.add(EventName.FAILED)
        elif isinstance(error, Exception):
            run.may |= _FAILURE
        else:
            run.may.add(EventName.RELEASED)  # it was cancelled
        if isinstance(error, DibsError):
            run.may |= _FAILURE  # and whatever it had asked for, if only the reply was lost

    def compare(self, items: Iterable[Item], since_us: int) -> list[str]:
        """Say what does not fit; ``since_us``: from when on a lease may have run out, and not by a mistake."""
        for job, events in items:
            for event in events:
                self._compare(event, since_us)
            if job is not None and job.status is Status.COMPLETED:
                self._compare_result(job)
        return self.trouble

    def _compare(self, event: Event, since_us: int) -> None:
        what = f"job {event.job_id} was {event.event} under fence {event.fence}"
        if event.event is EventName.EXPIRED and event.at_us < since_us:
            seconds = (event.at_us - START) / 1e6
            self.trouble.append(f"{what} after {seconds:.3f} s, though nothing had gone wrong until then")
        if event.event not in _BY_WORKER:
            return
        run = self._runs.get((event.job_id, event.fence))
        if run is None:
            if event.event is not EventName.RELEASED:
                self.trouble.append(f"{what}, though no handler ran")
        elif event.event not in run.may:
            did = " or ".join(sorted(run.may)) or "nothing yet"
            self.trouble.append(f"{what}, but by what its handler did it is {did}")

    def _compare_result(self, job: Job) -> None:
        run = self._runs.get((job.id, job.fence))
        if run is not None and job.result not in run.results:
            self.trouble.append(f"job {job.id} has the result {job.result!r}, but its handler gave {run.results}")
