"""Pruning: in small steps, each a transaction of its own, so that no one waits long for what one of them holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_STEP = 100  # things of a kind removed in one transaction


async def prune(
    limit: int,
    jobs: Callable[[int], Awaitable[int]],
    sweep: Callable[[int], Awaitable[int]],
    lanes: Callable[[int, int], Awaitable[int | None]],
) -> int:
    """Remove up to so many jobs; then all else that has outlived its time, and the lanes that no one uses."""
    pruned = 0
    while pruned < limit:
        step = min(_STEP, limit - pruned)
        gone = await jobs(step)
        pruned += gone
        if gone < step:
            break
    while await sweep(_STEP) == _STEP:
        pass
    after: int | None = 0
    while after is not None:
        after = await lanes(after, _STEP)
    return pruned
