"""Make a failing plan smaller: leave out what is not needed to fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from dibs.testing.sim.run import simulate

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.testing.sim.plan import Plan
    from dibs.testing.sim.result import Result


def shrink(result: Result, told: Callable[[Result], None] = lambda _: None, tries: int = 300) -> Result:
    """Give the smallest failing run that was found within so many tries."""
    smallest = result
    left = tries

    def fails(plan: Plan) -> bool:
        nonlocal smallest, left
        left -= 1
        again = simulate(plan)
        if not again.ok:
            smallest = again
            told(again)
        return not again.ok

    for field, values in (("steps", (10, 20, 50, 100, 200)), ("jobs", (1, 2, 3, 5, 10)), ("workers", (1, 2, 3))):
        for value in values:
            smaller = left > 0 and value < (getattr(smallest.plan, field) or 1000)
            if smaller and fails(msgspec.structs.replace(smallest.plan, **{field: value})):
                break
    while left > 0:
        hit = sorted({moment.step for moment in smallest.trace if moment.fault is not None})
        if not any(left > 0 and fails(_without(smallest.plan, step)) for step in reversed(hit)):
            break
    return smallest


def _without(plan: Plan, step: int) -> Plan:
    return msgspec.structs.replace(plan, without=plan.without | {step})
