"""What the handlers of a world did, held against what the store's log says became of their jobs.

The history checker sees calls to the store. It cannot know that a worker told the store something else than its handler
did: that is seen here, where both are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from dibs.domain.audit import Item
from dibs.domain.errors import DibsError
from dibs.domain.job import Event, EventName, Job, Status
from dibs.domain.signals import Fail, Snooze
from dibs.testing.sim.loop import START

if TYPE_CHECKING:
    from dibs.claim import Claim
    from dibs.testing.history import History

_BY_WORKER = frozenset({EventName.COMPLETED, EventName.RETRIED, EventName.FAILED, EventName.RELEASED})
_FAILURE = frozenset({EventName.RETRIED, EventName.FAILED})


class Run:
    """One handler, under one claim: how the job may end by it, and with which result."""

    def __init__(self) -> None:
        self.may: set[EventName] = set()
        self.results: list[object] = []
        self.went_on = -1  # until when it ran, unless it was cancelled: nanoseconds of the history's clock


class Witness:
    """Sees every handler begin and end."""

    def __init__(self, history: History, now: Callable[[], int]) -> None:
        self.trouble: list[str] = []
        self._history, self._now = history, now
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
        run.went_on = self._now()
        run.may.add(EventName.COMPLETED)
        run.results.append(result)

    def raises(self, claim: Claim, error: BaseException) -> None:
        """Note how a handler ended that did not return."""
        run = self._runs[claim.id, claim.fence]
        if isinstance(error, Exception) and not isinstance(error, DibsError):  # which it gets as it settles by itself
            run.went_on = self._now()
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

    def compare(self, items: Iterable[Item], blamed_us: Mapping[str, int]) -> list[str]:
        """Say what does not fit; ``blamed_us``: since when a worker may have lost a lease, and not by a mistake."""
        for job, events in items:
            for event in events:
                self._compare(event, blamed_us)
            if job is not None and job.status is Status.COMPLETED:
                self._compare_result(job)
        self._compare_losses()
        return self.trouble

    def _compare_losses(self) -> None:
        """See that no handler went on after its worker was told that the claim is lost."""
        for operation in self._history.operations:
            if operation.kind == "extend" and operation.result == "lost":
                id, fence = operation.arguments["id"], operation.arguments["fence"]
                run = self._runs.get((id, fence))
                if run is not None and run.went_on > (operation.returned or run.went_on):
                    self.trouble.append(f"a handler went on under fence {fence} of job {id}, known to be lost")

    def _compare(self, event: Event, blamed_us: Mapping[str, int]) -> None:
        what = f"job {event.job_id} was {event.event} under fence {event.fence}"
        since_us = min(blamed_us.get(event.worker_id or "", event.at_us + 1), blamed_us.get("", event.at_us + 1))
        if event.event is EventName.EXPIRED and event.at_us < since_us:
            seconds = (event.at_us - START) / 1e6
            self.trouble.append(f"{what} after {seconds:.3f} s, though nothing had befallen {event.worker_id}")
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
