"""That no lease has run out: believed for a while, so that many who look in vain ask the database once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from dibs.domain.retry import SECOND

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.domain.job import Job

LONGEST = 1.5  # seconds


class NoneLate:
    """Until when no lease will have run out that this process knows of. By real time."""

    def __init__(self) -> None:
        self._until = 0.0

    def holds(self, ahead: float = 0.0) -> bool:
        """Say whether it is believed now, and will be so many seconds from now."""
        return time.monotonic() + ahead < self._until

    def believe(self, began: float, seconds: float) -> None:
        """Believe it: the first lease runs out so many seconds after the moment at which that was asked."""
        if seconds > 0:
            self._until = began + min(seconds, LONGEST)

    def left(self) -> float:
        """Say for how many seconds it is still believed."""
        return max(0.0, self._until - time.monotonic())

    def claimed(self, began: float, jobs: Iterable[Job]) -> None:
        """Believe it no longer than until the leases of these run out, which were claimed after this moment."""
        leases = [job.claim_lease_us or 0 for job in jobs]
        if leases:
            self._until = min(self._until, began + min(leases) / SECOND)

    def forget(self) -> None:
        """Believe nothing."""
        self._until = 0.0
