"""Asking again: for rows that another transaction holds, and never for one job twice in one go."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from dibs.domain.job import Outcome

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from dibs.store import Written

Q = TypeVar("Q")
A = TypeVar("A")

BUSY_SECONDS = (0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128)
"""Between two tries of a row that another one holds. Transactions of dibs itself are over by then; a user's may take
long, and is the caller's to wait for."""


def is_busy(answer: Written) -> bool:
    """Say whether another transaction held the row of a write."""
    return answer.outcome is Outcome.BUSY


def rounds(places: list[int], ids: list[str]) -> list[list[int]]:
    """Split so that no job is named twice in a round: a later write of a job must see what an earlier one left."""
    found: list[list[int]] = []
    times: dict[str, int] = {}
    for at, id in zip(places, ids, strict=True):
        nth = times.get(id, 0)
        times[id] = nth + 1
        if nth == len(found):
            found.append([])
        found[nth].append(at)
    return found


async def until_free(
    asked: Sequence[Q],
    ids: Sequence[str],
    ask: Callable[[list[Q]], Awaitable[list[A]]],
    is_busy: Callable[[A], bool],
    pauses: Sequence[float] = BUSY_SECONDS,
) -> list[A]:
    """Ask for all, in rounds, and again for those that are busy, for as long as there are pauses."""
    answers: dict[int, A] = {}
    for pause in (*pauses, None):
        busy = [at for at in range(len(asked)) if at not in answers or is_busy(answers[at])]
        for places in rounds(busy, [ids[at] for at in busy]):
            found = await ask([asked[at] for at in places])
            answers.update(zip(places, found, strict=True))
        if pause is None or not any(map(is_busy, answers.values())):
            break
        await asyncio.sleep(pause)
    return [answers[at] for at in range(len(asked))]
