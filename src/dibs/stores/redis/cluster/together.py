"""Several shards, asked at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from dibs.domain.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

T = TypeVar("T")


async def together(asked: Iterable[Awaitable[T]]) -> list[T]:
    """Wait for all, and only then raise what went wrong: nothing is left on its way."""
    tasks = [asyncio.ensure_future(each) for each in asked]
    await asyncio.gather(*tasks, return_exceptions=True)
    return [task.result() for task in tasks]


async def reachable(asked: Iterable[Awaitable[T]]) -> list[T | None]:
    """Wait for all; none for a shard that cannot be reached, unless none of them can."""
    answers = await asyncio.gather(*asked, return_exceptions=True)
    found: list[T | None] = []
    away: StoreUnavailable | None = None
    for answer in answers:
        if isinstance(answer, StoreUnavailable):
            away = answer
            found.append(None)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found.append(answer)
    if away is not None and all(answer is None for answer in found):
        raise away
    return found
