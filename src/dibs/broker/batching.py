"""Calls that meet in time become one call.

While one batch is on its way the next one gathers, so nothing ever waits for company: a call that comes alone leaves at
once, with whatever else was called in the same turn of the loop. Each call gets its own answers back, in order.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dibs.domain.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

logger = logging.getLogger("dibs")

Item = TypeVar("Item")
Answer = TypeVar("Answer")
T = TypeVar("T")


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
        send: Callable[[list[Item]], Coroutine[Any, Any, Sequence[Answer]]],
        *,
        most: int,
        weight: Callable[[Item], int] = lambda _: 1,
        give_back: Callable[[list[Answer]], Coroutine[Any, Any, None]] | None = None,
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
            self._start()
        try:
            return await call.answers
        except asyncio.CancelledError:
            # Race: answered, then cancelled before the caller woke. The answer is lost with the caller unless it is
            # given back here (test_a_claim_cancelled_after_its_answer_is_released).
            if call.answers.done() and not call.answers.cancelled() and call.answers.exception() is None:
                await self._return(call.answers.result())
            raise

    def _start(self) -> None:
        # The task starts in the next turn of the loop: whatever else is called in this one goes along.
        self._running = _Stubborn(self._run(), name="dibs-batch")

    async def _run(self) -> None:
        while self._gathered:
            await self._flush(self._next())
        self._running = None

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
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  # it is the callers', and reaches them
            # Race: no one can cancel this task, but what it waited for may have been cancelled. Whoever let that out
            # would leave all who call from now on waiting (test_a_send_that_is_cancelled_from_within).
            told = error if isinstance(error, Exception) else StoreUnavailable("it was given up on the way")
            for call in batch:
                if not call.answers.done():
                    call.answers.set_exception(told)
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
        if abandoned:
            await self._return(abandoned)

    async def _return(self, abandoned: list[Answer]) -> None:
        if self._give_back is None:
            return
        try:
            await to_its_end(self._give_back(abandoned))
        except Exception as error:  # noqa: BLE001 - whoever is served next has no part in it
            logger.warning("could not give back what no one waits for any more: %s", error)


class _Stubborn(asyncio.Task[T]):
    """A task that cannot be cancelled, only waited for: also by a loop that is going down.

    ``asyncio.timeout`` and ``wait_for`` work by cancelling, so they have no effect in here; what a store calls under
    such a limit needs a task of its own.
    """

    def cancel(self, msg: Any | None = None) -> bool:
        del msg
        return False


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Wait until work is done, though the loop is going down: what a claim took must be known to be given back."""
    answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    with suppress(asyncio.CancelledError):  # it waited for the work
        await _Stubborn(_answer(work, answer))
    return answer.result()


async def _answer(work: Coroutine[Any, Any, T], answer: asyncio.Future[T]) -> None:
    """Hand over what work gives or raises. Had the task itself failed, a loop that goes down would report it as well.

    (test_what_fails_as_a_loop_goes_down_is_told_to_its_caller_alone)
    """
    try:
        answer.set_result(await work)
    except asyncio.CancelledError:
        answer.cancel()
    except Exception as error:  # noqa: BLE001  # it reaches whoever waits
        answer.set_exception(error)
