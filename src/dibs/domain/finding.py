"""What an examination of a store finds: each thing looked at, how it is, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from dibs.domain.errors import StoreUnavailable
from dibs.domain.retry import SECOND


class Level(StrEnum):
    """How it is."""

    OK = "ok"
    WARNING = "warning"  # it works, and will hurt
    FAILURE = "failure"  # it does not work, or breaks a promise


UNAVAILABLE = frozenset({"reachable", "version", "schema"})
"""Findings without which nothing works: as a failure they are what ``StoreUnavailable`` is."""

SKEW_SECONDS = 1.0
"""How far two clocks may be apart before anyone is told."""


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    code: str  # stable, for scripts
    level: Level
    message: str
    fix: str = ""


def ok(code: str, message: str) -> Finding:
    """Say that it is well."""
    return Finding(code, Level.OK, message)


def warning(code: str, message: str, fix: str) -> Finding:
    """Say that it will hurt."""
    return Finding(code, Level.WARNING, message, fix)


def failure(code: str, message: str, fix: str) -> Finding:
    """Say that it does not work."""
    return Finding(code, Level.FAILURE, message, fix)


def orphans(late: int, old: int) -> list[Finding]:
    """Judge what no one looks after."""
    found: list[Finding] = []
    if late:
        what = f"{late} claims ran out more than a minute ago, and no one has taken them over"
        found.append(warning("leases", what, "Start a worker: whoever claims looks after them."))
    if old:
        what = f"{old} finished jobs should have been removed more than an hour ago"
        found.append(warning("retention", what, "Start a worker, or `dibs serve`: both prune."))
    return found or [ok("orphans", "no claim and no finished job is overdue")]


def skew(theirs: int, before: int, after: int) -> Finding:
    """Compare two clocks: ours was read on either side of the question."""
    off = max(before - theirs, theirs - after, 0) / SECOND
    if off <= SKEW_SECONDS:
        return ok("clock", f"this machine's clock and the server's agree within {max(off, 0.001):.3g} s")
    which = "behind" if theirs > after else "ahead of"
    what = f"this machine's clock is {off:.0f} s {which} the server's; claims go by the server's"
    return warning(
        "clock", f"{what}, your logs and scheduled_at do not", "Run an NTP client (chrony, systemd-timesyncd) on both."
    )


def worst(findings: Iterable[Finding]) -> Level:
    """Say how bad it is in all."""
    levels = {finding.level for finding in findings}
    return next((level for level in (Level.FAILURE, Level.WARNING) if level in levels), Level.OK)


def exit_code(findings: Iterable[Finding]) -> int:
    """Give the status that a command ends with: warnings are no error."""
    failures = [finding for finding in findings if finding.level is Level.FAILURE]
    if any(finding.code in UNAVAILABLE for finding in failures):
        return StoreUnavailable.exit_code
    return 1 if failures else 0
