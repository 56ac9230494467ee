"""A run as a picture: time goes down, each process has a column, and what went wrong is marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dibs.testing.sim.result import Result

_WIDTH = 26


def draw(result: Result, most: int = 120) -> str:
    """Draw the run, its last ``most`` moments, with the code that repeats it."""
    moments = result.trace[-most:]
    names = list(dict.fromkeys(moment.process for moment in moments))
    lines = ["".join([f"{'seconds':>10}  ", *(f"{name:<{_WIDTH}}" for name in names)]).rstrip()]
    before = -1.0
    for moment in moments:
        at = f"{moment.at:>10.3f}" if moment.at != before else " " * 10
        before = moment.at
        cells = ["│".ljust(_WIDTH)] * len(names)
        what = moment.what if moment.fault is None else f"{moment.what} ✗ {moment.fault}"
        cells[names.index(moment.process)] = f"{what[: _WIDTH - 1]:<{_WIDTH}}"
        lines.append("".join([f"{at}  ", *cells]).rstrip())
    if len(result.trace) > most:
        lines.insert(1, f"{'…':>10}  {len(result.trace) - most} moments before this are left out")
    code = ["", "from dibs.testing.sim import Plan, simulate", f"print(simulate({result.plan}))"]
    return "\n".join([*lines, "", str(result), *code])
