"""Hints that one event loop sends to other processes, and those that it hears."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, TypeVar

from dibs.domain.errors import DibsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from dibs.stores.common.herald import Herald
    from dibs.stores.common.waiting import Name, Waiting

logger = logging.getLogger("dibs")

T = TypeVar("T")


class Hints:
    """Told by the script that makes a job pending; if that was just done, a moment later by themselves."""

    def __init__(self, herald: Herald, waiting: Waiting, publish: Callable[[str], Awaitable[object]]) -> None:
        self._herald, self._waiting, self._publish = herald, waiting, publish
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    async def announce(self, news: Iterable[Name] | None, run: Callable[[str], Awaitable[T]]) -> T:
        """Run what makes jobs pending, and tell of it: here, and in other processes."""
        hint = self._herald.now(news) or ""
        try:
            answer = await run(hint)
        except BaseException:
            self._send_soon(hint)  # it may be about other jobs than these
            raise
        self._waiting.tell(news)
        if not hint:
            payload, seconds = self._herald.pick(news)
            self._send_soon(payload or "")
            if seconds is not None:
                self._timer = asyncio.get_running_loop().call_later(seconds, self._send_rest)
        return answer

    def hear(self, payload: str | None) -> None:
        """Pass on what others say; none: something may have been missed."""
        elsewhere, names = (True, None) if payload is None else self._herald.read(payload)
        if elsewhere:
            self._waiting.tell(names)

    def _send_rest(self) -> None:
        self._timer = None
        self._send_soon(self._herald.rest() or "")

    def _send_soon(self, payload: str) -> None:
        if payload and not self._closed:
            task = asyncio.get_running_loop().create_task(self._send(payload))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _send(self, payload: str) -> None:
        try:
            await self._publish(payload)
        except DibsError as error:
            logger.debug("could not tell other processes what has come in: %s", error)

    async def close(self) -> None:
        """Send what is still to be sent."""
        if self._timer is not None:
            self._timer.cancel()
            self._send_rest()
        self._closed = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)

    def terminate(self) -> None:
        """Send nothing more."""
        self._closed = True
