"""When a process that runs handlers has done enough, and another is to take its place.

What a handler leaks, or a library, is then never more than that of so many jobs. Each process draws its own bound, a
little below what was asked for, so that those which began together do not end together.
"""

from __future__ import annotations

import os
import resource
import sys
from typing import TYPE_CHECKING

from dibs.domain.checks import check_integer

if TYPE_CHECKING:
    from random import Random

    from dibs.domain.errors import Problem

MIB = 1024 * 1024
SPREAD = 10
"""The bound of a process is up to one part in so many below what was asked for."""
_STATM = "/proc/self/statm"


class Renewal:
    """What one process may do: so many jobs, and never more memory than so much."""

    def __init__(self, after_jobs: int | None, above_mib: int | None, random: Random) -> None:
        self._jobs = None if after_jobs is None else after_jobs - random.randrange(after_jobs // SPREAD + 1)
        self._memory = None if above_mib is None else above_mib * MIB * (1 - random.random() / SPREAD)
        self._done = 0

    def count(self, jobs: int) -> None:
        """Note that it has taken jobs."""
        self._done += jobs

    def room(self, room: int) -> int:
        """Say how many of so many jobs it may still take."""
        return room if self._jobs is None else min(room, self._jobs - self._done)

    def due(self, memory: int | None = None) -> bool:
        """Say whether it has done enough. One that has done nothing has not: else there would be no end to it."""
        if self._done == 0:
            return False
        if self._jobs is not None and self._done >= self._jobs:
            return True
        return self._memory is not None and (resident() if memory is None else memory) > self._memory


def check_renewal(after_jobs: int | None, above_mib: int | None) -> list[Problem]:
    """Check what was asked for."""
    problems: list[Problem] = []
    if after_jobs is not None:
        problems += check_integer("renew_after_jobs", after_jobs, 1, 10**9)
    if above_mib is not None:
        problems += check_integer("renew_above_mib", above_mib, 1, 2**30)
    return problems


def resident() -> int:
    """Say how many bytes of memory this process has: now, or, where that is not known, at the most until now."""
    try:
        # The most until now would not do: a process begins with that of whoever has started it.
        with open(_STATM, "rb") as file:  # noqa: PTH123 - it is read often, and this is the quick way
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
