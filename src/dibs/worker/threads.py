"""Threads for handlers that are plain functions."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import copy_context
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from dibs.clock import Clock


class _Call:
    __slots__ = ("context", "function", "future")

    def __init__(self, function: Callable[[], Any], context: Context, future: asyncio.Future[Any]) -> None:
        self.function, self.context, self.future = function, context, future


class Threads:
    """As many threads as there are calls at once, kept for the next ones. They do not keep the process alive."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queue: SimpleQueue[_Call | None] = SimpleQueue()
        self._threads = 0
        self._busy = 0

    def call(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Call a function in a thread, in a copy of the caller's context; on the loop that waits for it."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._busy += 1
        future.add_done_callback(self._free)
        if self._threads < self._busy:
            self._threads += 1
            self._clock.spawn(f"dibs-handler-{self._threads}", self._serve)
        self._queue.put(_Call(function, copy_context(), future))
        return future

    def _free(self, _: asyncio.Future[Any]) -> None:
        self._busy -= 1

    def close(self) -> None:
        """Let the threads go, each when it has nothing left to do; one that never returns is left behind."""
        for _ in range(self._threads):
            self._queue.put(None)
        self._threads = 0

    def _serve(self) -> None:
        while (call := self._queue.get()) is not None:
            try:
                result, error = call.context.run(call.function), None
            except BaseException as raised:  # noqa: BLE001 - a handler may even ask to exit; it is told to whoever waits
                result, error = None, raised
            with suppress(RuntimeError):  # the loop is closed: no one waits any more
                call.future.get_loop().call_soon_threadsafe(_tell, call.future, result, error)
            del call, result, error  # nothing of it is kept while waiting for the next


def _tell(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    else:
        # A future takes no StopIteration, and a loop stops at SystemExit: the caller gets all of them in the same way.
        future.set_result(Raised(error))


class Raised:
    """What a call raised, as a value."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error
