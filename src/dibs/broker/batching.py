"""Calls that meet in time become one call.

While one batch is on its way the next one gathers, so nothing ever waits for company: a call that comes alone leaves at
once, with whatever else was called in the same turn of the loop. Each call gets its own answers back, in order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class _Call(Generic[Item, Answer]):
    __slots__ = ("answers", "items")

    def __init__(self, items: Sequence[Item], answers: asyncio.Future[list[Answer]]) -> None:
        self.items = items
        self.answers = answers


class Batcher(Generic[Item, Answer]):
    """Merges the calls of one verb on one event loop.

    ``send`` answers each item for itself. ``give_back`` is told the answers that no one waits for any more, and
    makes an unsent call of a caller who gave up vanish; without it, what was called is done whether or not its caller
    still waits.
    """

    def __init__(
        self,
        send: Callable[[list[Item]], Awaitable[Sequence[Answer]]],
        *,
        most: int,
        weight: Callable[[Item], int] = lambda _: 1,
        give_back: Callable[[list[Answer]], Awaitable[None]] | None = None,
    ) -> None:
        self._send = send
        self._most = most
        self._weight = weight
        self._give_back = give_back
        self._gathered: deque[_Call[Item, Answer]] = deque()
        self._running: asyncio.Task[None] | None = None

    async def call(self, items: Sequence[Item]) -> list[Answer]:
        """Have the items sent, and return their answers in order."""
        if not items:
            return []
        call = _Call[Item, Answer](items, asyncio.get_running_loop().create_future())
        self._gathered.append(call)
        if self._running is None:
            # The task starts in the next turn of the loop: whatever else is called in this one goes along.
            self._running = asyncio.get_running_loop().create_task(self._run(), name="dibs-batch")
        return await call.answers

    async def _run(self) -> None:
        try:
            while self._gathered:
                await self._flush(self._next())
        finally:
            self._running = None
            # Only if the loop is going down, or the code is wrong: nobody may be left waiting for ever.
            while self._gathered:
                self._gathered.popleft().answers.cancel()

    def _next(self) -> list[_Call[Item, Answer]]:
        batch: list[_Call[Item, Answer]] = []
        total = 0
        while self._gathered:
            call = self._gathered[0]
            if self._give_back is not None and call.answers.cancelled():
                self._gathered.popleft()
                continue
            total += sum(map(self._weight, call.items))
            if batch and total > self._most:
                break
            batch.append(self._gathered.popleft())
        return batch

    async def _flush(self, batch: list[_Call[Item, Answer]]) -> None:
        if not batch:
            return
        try:
            answers = await self._send([item for call in batch for item in call.items])
        except BaseException as error:
            for call in batch:
                if not call.answers.done():
                    if isinstance(error, asyncio.CancelledError):
                        call.answers.cancel()
                    else:
                        call.answers.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        start = 0
        abandoned: list[Answer] = []
        for call in batch:
            own = list(answers[start : start + len(call.items)])
            start += len(call.items)
            if call.answers.done():
                abandoned += own
            else:
                call.answers.set_result(own)
        if abandoned and self._give_back is not None:
            await self._give_back(abandoned)
