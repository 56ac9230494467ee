"""Processor time of a server: of its process, of those below it, and of all their threads, to the nanosecond."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")


def spent(pid: int) -> float:
    """Seconds so far. What threads and processes used that have ended is not in it: measure while they live."""
    return sum(map(_spent, _family(pid))) / 1e9


def _spent(pid: int) -> int:
    total = 0
    for thread in (_PROC / str(pid) / "task").glob("*/schedstat"):
        with suppress(OSError):  # it has ended since
            total += int(thread.read_text().split()[0])
    return total


def _family(pid: int) -> set[int]:
    """Find the process and all that it, or one of them, has started."""
    parents: dict[int, int] = {}
    for stat in _PROC.glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name, in brackets, may have spaces and brackets of its own.
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    family = {pid}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return family
