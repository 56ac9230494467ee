"""Those who wait: woken at once by what this process commits, and looking for themselves now and then for the rest."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from dibs.clock import Bell
from dibs.domain.job import NEVER
from dibs.domain.retry import SECOND

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from dibs.clock import Clock
    from dibs.domain.job import ClaimRequest

Name = tuple[str, str]  # queue, task

_Key = tuple[Any, ...]
_Peek = tuple[int, int]  # when something is due, and what time it was then
_LOOKING: _Peek = (NEVER, 0)  # what is known while someone looks


class Pace(NamedTuple):
    """How often to look, in seconds."""

    trust: float  # how long what was seen is believed, unless this process hears of news
    poll: float  # how long until one looks again


class _Waiter:
    """One who waits."""

    __slots__ = ("bell", "guesses", "request", "rung")

    def __init__(self, request: ClaimRequest, clock: Clock) -> None:
        self.request, self.bell, self.rung = request, Bell(clock), False
        self.guesses = False  # that there is nothing, as someone else is looking at this moment

    def ring(self) -> None:
        self.rung = True
        self.bell.ring()


class Waiting:
    """All who wait in this process, on whichever loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._waiters: dict[_Waiter, None] = {}
        self._seen: dict[_Key, tuple[float, _Peek, ClaimRequest]] = {}

    async def wait(
        self,
        request: ClaimRequest,
        timeout: float,
        peek: Callable[[], Awaitable[_Peek]],
        pace: Callable[[], Awaitable[Pace]],
    ) -> None:
        """Listen first and look then, so that what comes in between is heard."""
        waiter = _Waiter(request, self._clock)
        end = self._clock.monotonic() + timeout
        with self._lock:
            self._waiters[waiter] = None
        try:
            while not waiter.rung:
                listener = waiter.bell.listen()
                try:
                    trust, poll = await pace()
                    due, now = await self._look(waiter, peek, trust)
                    left = min(end - self._clock.monotonic(), (due - now) / SECOND, poll)
                    if left <= 0 or waiter.rung:
                        return
                    await listener.wait(left)
                finally:
                    listener.close()
        finally:
            with self._lock:
                self._waiters.pop(waiter, None)

    async def _look(self, waiter: _Waiter, peek: Callable[[], Awaitable[_Peek]], trust: float) -> _Peek:
        """Look, unless someone who wants the same has looked a moment ago, and news would have been heard since."""
        with self._lock:
            seen = self._seen.get(_key(waiter.request))
            if seen is not None:
                at, (due, now), _ = seen
                passed = self._clock.monotonic() - at
                if 0 <= passed < trust and due > now + passed * SECOND:
                    waiter.guesses = seen[1] is _LOOKING
                    return due, now + round(passed * SECOND)
        return await self.look(waiter.request, peek)

    async def look(self, request: ClaimRequest, peek: Callable[[], Awaitable[_Peek]]) -> _Peek:
        """Look now; who waits for the same believes what was seen."""
        key, began = _key(request), self._clock.monotonic()
        with self._lock:
            if len(self._seen) > 1000:  # noqa: PLR2004 - wishes without end are not remembered without end
                self._seen.clear()
            self._seen[key] = (began, _LOOKING, request)  # news from now on is about what is being looked for
        found: _Peek | None = None
        try:
            found = await peek()
            return found
        finally:
            self._looked(key, began, request, found)

    def _looked(self, key: _Key, began: float, request: ClaimRequest, found: _Peek | None) -> None:
        with self._lock:
            if key in self._seen and self._seen[key][0] == began:
                del self._seen[key]
                if found is not None:
                    self._seen[key] = (began, found, request)
            guessing = [waiter for waiter in self._waiters if waiter.guesses and _key(waiter.request) == key]
        for waiter in guessing:
            waiter.guesses = False
            waiter.bell.ring()

    def tell(self, news: Iterable[Name] | None) -> None:
        """Wake those who want to know; none: it may concern anyone."""
        if not self._waiters and not self._seen:
            return
        names = None if news is None else list(news)
        with self._lock:
            self._seen = {
                key: seen for key, seen in self._seen.items() if names is not None and not _wants(seen[2], names)
            }
            woken = [waiter for waiter in self._waiters if names is None or _wants(waiter.request, names)]
        for waiter in woken:
            waiter.ring()


def _key(request: ClaimRequest) -> _Key:
    return request.queues, request.tasks, request.min_attempts_left


def _wants(request: ClaimRequest, names: list[Name]) -> bool:
    return any(request.wants(queue, task) for queue, task in names)
