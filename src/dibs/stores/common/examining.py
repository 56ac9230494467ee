"""Examine: what any server is looked at for, and how it is told. The questions, and the fixes, are each store's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dibs.domain.finding import Finding, failure, ok, warning
from dibs.domain.retry import SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

SKEW_SECONDS = 1.0
SNAPSHOT_SECONDS = 300.0  # that a transaction may be open
IDLE_SECONDS = 60.0  # that no one does anything in it
LATE_SECONDS = 60.0
OLD_SECONDS = 3600.0


class Switch(NamedTuple):
    """A setting, what is fine (and to be set first of all), and what any other value does."""

    name: str
    fine: tuple[str, ...]
    harm: str
    breaks: bool = False  # a promise, and not only the pace


def version(name: str, wanted: str, *, works: bool, cared_for: bool) -> Finding:
    """Judge a server's version."""
    if not works:
        return failure("version", f"{name} is too old", f"Upgrade to {wanted} or newer.")
    if not cared_for:
        return warning("version", f"{name} gets no more fixes", f"Upgrade to {wanted} or newer.")
    return ok("version", name)


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


def switches(looked_at: Iterable[Switch], settings: Mapping[str, str], fix: Callable[[str, str], str]) -> list[Finding]:
    """Name the settings that hurt; those that this server does not have do not."""
    bad: list[Finding] = []
    for name, fine, harm, breaks in looked_at:
        value = settings.get(name, fine[0])
        if value not in fine:
            tell = failure if breaks else warning
            bad.append(tell(name, f"{name} is {value}: {harm}", fix(name, fine[0])))
    return bad


def connections(free: int, most: int, needed: int, fix: str) -> Finding:
    """Say whether one process more can connect as often as it may want to."""
    if free < needed:
        what = f"{free} of {most} connections are free, and one process may use {needed}"
        return warning("connections", what, fix)
    return ok("connections", f"{free} of {most} are free")


def shortest_age() -> float:
    """Give the seconds that a transaction has been open for at least that ``snapshots`` may name."""
    return min(SNAPSHOT_SECONDS, IDLE_SECONDS)


def snapshots(found: Iterable[tuple[str, float, bool]], fix: str) -> list[Finding]:
    """Name those who have kept a transaction open for too long: who, for how many seconds, and whether idle."""
    bad: list[Finding] = []
    for who, age, idle in found:
        if age and age < (IDLE_SECONDS if idle else SNAPSHOT_SECONDS):
            continue
        what = f"{who} has held a transaction open for {age:.0f} s" if age else f"{who} is used by no one"
        bad.append(warning("snapshots", what, fix))
    return bad or [ok("snapshots", "no transaction has been open for long")]


def schema(ahead: str, where: str = "") -> Finding:
    """Say that a schema can be used, and whether it is further than this dibs."""
    if ahead:
        return warning("schema", f"{ahead}; nothing in it is in the way", "Upgrade dibs here too, when you can.")
    return ok("schema", f"up to date{where}")


def denied(me: str, missing: Mapping[str, Sequence[str]], grant: Callable[[str, Sequence[str]], str]) -> list[Finding]:
    """Say what the user may not do to which table, and how that is granted."""
    return [
        failure("privileges", f"{me} may not {', '.join(privileges)} on {name}", grant(name, privileges))
        for name, privileges in missing.items()
    ]


def granted(me: str) -> Finding:
    """Say that nothing is missing."""
    return ok("privileges", f"{me} may do all that dibs does")


def micros(seconds: float) -> int:
    """Give a duration as a store counts it."""
    return round(seconds * SECOND)
