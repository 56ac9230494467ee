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
    from dibs.store import Rivals

Name = tuple[str, str]  # queue, task

_MANY = 20  # queues with news, beyond which one had better look in all
_CROWD = 10  # rivals beyond whom they look in turn: all of them together as often as so many would

_Key = tuple[Any, ...]
_Peek = tuple[int, int]  # when something is due, and what time it was then


if TYPE_CHECKING:
    Peek = Callable[[frozenset[str] | None], Awaitable[_Peek]]
    """A look in some queues, or in all that are asked for. It may be in more than these."""


class Pace(NamedTuple):
    """How often to look, in seconds."""

    trust: float  # how long what was seen is believed, unless this process hears of news
    poll: float  # how long until one looks again


class _Waiter:
    """One who waits."""

    __slots__ = ("bell", "guesses", "heard", "request", "rung")

    def __init__(self, request: ClaimRequest, clock: Clock) -> None:
        self.request, self.bell, self.rung = request, Bell(clock), False
        self.heard: frozenset[str] | None = frozenset()  # queues of which there are news; none: it may be any
        self.guesses = False  # that there is nothing, as someone else is looking at this moment

    def ring(self, queues: frozenset[str] | None) -> None:
        self.heard = None if self.heard is None or queues is None else self.heard | queues
        self.rung = True
        self.bell.ring()


class _Seen:
    """What a look has found, and where there were news since."""

    __slots__ = ("at", "found", "looking", "news", "request")

    def __init__(self, request: ClaimRequest, at: float) -> None:
        self.request, self.at = request, at
        self.found: _Peek = (NEVER, 0)
        self.news: frozenset[str] = frozenset()  # queues
        self.looking = True  # someone, at this moment

    def add(self, found: _Peek, queues: frozenset[str] | None, moment: float) -> None:
        """Note what was found just now, in these queues or in all."""
        due, now = found
        if queues is None:
            self.found = found
        elif due < NEVER:
            self.found = min(self.found[0], self.since(moment)[1] + due - now), self.found[1]

    def since(self, moment: float) -> _Peek:
        """Say when something is due, and what time it is by now."""
        due, now = self.found
        return due, now + round((moment - self.at) * SECOND)

    def holds(self, moment: float, trust: float) -> bool:
        """Say whether it is still believed, but for the news."""
        due, now = self.since(moment)
        return 0 <= moment - self.at < trust and due > now


class Waiting:
    """All who wait in this process, on whichever loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._waiters: dict[_Waiter, None] = {}
        self._seen: dict[_Key, _Seen] = {}

    async def wait(
        self,
        request: ClaimRequest,
        timeout: float,
        peek: Peek,
        pace: Callable[[], Awaitable[Pace]],
    ) -> frozenset[str] | None:
        """Listen first and look then, so that what comes in between is heard; say of which queues there are news.

        None: there may be something in any of them.
        """
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
                    if left <= 0:
                        return None
                    if not waiter.rung:
                        await listener.wait(left)
                finally:
                    listener.close()
            return waiter.heard
        finally:
            with self._lock:
                self._waiters.pop(waiter, None)

    async def _look(self, waiter: _Waiter, peek: Peek, trust: float) -> _Peek:
        """Look, unless someone who wants the same has looked a moment ago; then only where there were news since."""
        moment = self._clock.monotonic()
        with self._lock:
            seen = self._seen.get(_key(waiter.request))
            if seen is not None and not seen.holds(moment, trust):
                seen = None
            if seen is not None and (seen.looking or not seen.news):
                waiter.guesses = seen.looking
                return seen.since(moment)
            queues: frozenset[str] | None = None
            if seen is not None:
                queues, seen.news, seen.looking = seen.news, frozenset(), True
        if seen is None:
            return await self.look(waiter.request, peek)
        await self._find(seen, peek, queues)
        return seen.since(self._clock.monotonic())

    async def look(self, request: ClaimRequest, peek: Peek) -> _Peek:
        """Look now; who waits for the same believes what was seen."""
        seen = _Seen(request, self._clock.monotonic())
        with self._lock:
            if len(self._seen) > 1000:  # noqa: PLR2004 - wishes without end are not remembered without end
                self._seen.clear()
            self._seen[_key(request)] = seen  # news from now on are about what is being looked for
        await self._find(seen, peek, None)
        return seen.found

    async def _find(self, seen: _Seen, peek: Peek, queues: frozenset[str] | None) -> None:
        """Look in these queues, or in all; who relied on that meanwhile hears of it."""
        key, found = _key(seen.request), None
        try:
            found = await peek(queues)
        finally:
            with self._lock:
                if found is not None:
                    seen.add(found, queues, self._clock.monotonic())
                elif self._seen.get(key) is seen:
                    del self._seen[key]
                seen.looking = False
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
            waiters = list(self._waiters)
            if names is None:
                self._seen.clear()
            else:
                for key, seen in list(self._seen.items()):
                    seen.news |= _wanted(seen.request, names)
                    if len(seen.news) > _MANY:
                        del self._seen[key]
        for waiter in waiters:
            if names is None:
                waiter.ring(None)
            elif queues := _wanted(waiter.request, names):
                waiter.ring(queues)


async def in_turn(seconds: float, rivals: Rivals) -> float:
    """Say how often to look for what others bring: many look the more seldom each, as any of them may find it."""
    return seconds * max(1.0, await rivals() / _CROWD)


def _key(request: ClaimRequest) -> _Key:
    return request.queues, request.tasks, request.min_attempts_left


def _wanted(request: ClaimRequest, names: list[Name]) -> frozenset[str]:
    """Say in which of these queues there is something that is asked for."""
    return frozenset(queue for queue, task in names if request.wants(queue, task))
