"""The only place that knows wall time, randomness and threads: real ones here, or a fake for tests and simulation."""

from __future__ import annotations

import asyncio
import heapq
import os
import threading
import time
from base64 import urlsafe_b64encode
from contextlib import suppress
from random import Random, SystemRandom
from typing import TYPE_CHECKING

from dibs.domain.retry import SECOND, Duration, micros

if TYPE_CHECKING:
    from collections.abc import Callable

_TOKEN_BYTES = 18  # 144 random bits, 24 characters


class Clock:
    """The machine's time, randomness and threads."""

    threads = True  # false: stores and portals run what they are given at once, in the caller's thread

    def __init__(self, random: Random | None = None) -> None:
        self.random: Random = random or SystemRandom()

    def now(self) -> int:
        """Tell the time in microseconds since 1970. Only stores may decide by it."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Count seconds, from no particular time, for measuring how long something takes."""
        return time.monotonic()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back on the running loop after a while; what is returned calls it off."""
        return asyncio.get_running_loop().call_later(seconds, callback).cancel

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        call_off = self.call_later(seconds, lambda: _wake([future]))
        try:
            await future
        finally:
            call_off()

    def spawn(self, name: str, target: Callable[[], None]) -> threading.Thread:
        """Start a thread that does not keep the process alive."""
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        return thread

    def random_bytes(self, count: int) -> bytes:
        """Draw bytes that no one can guess."""
        return os.urandom(count)

    def token(self) -> str:
        """Make a lease token that no one can guess."""
        return urlsafe_b64encode(self.random_bytes(_TOKEN_BYTES)).decode()

    def new_id(self) -> str:
        """Make a UUIDv7: unique, and roughly in the order of time, so that indexes on it stay compact."""
        milliseconds = self.now() // 1000
        value = (milliseconds << 80) | int.from_bytes(self.random_bytes(10), "big")
        value = value & ~(0xF << 76) | (0x7 << 76)
        value = value & ~(0x3 << 62) | (0x2 << 62)
        text = f"{value:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class FakeClock(Clock):
    """Time that moves only when it is told to, and randomness that repeats."""

    def __init__(self, seed: int = 0, start: int = 1_800_000_000 * SECOND) -> None:
        super().__init__(Random(seed))  # noqa: S311 - it is meant to repeat
        self._now = start
        self._lock = threading.Lock()
        self._timers: list[tuple[int, int, asyncio.AbstractEventLoop, Callable[[], None]]] = []
        self._count = 0

    @property
    def timers(self) -> int:
        """How many have asked to be woken so far: a test sees that someone waits."""
        return self._count

    def now(self) -> int:
        """Tell the time that was set."""
        return self._now

    def monotonic(self) -> float:
        """Count the seconds that were set."""
        return self._now / SECOND

    def random_bytes(self, count: int) -> bytes:
        """Draw bytes that are the same for the same seed."""
        with self._lock:
            return self.random.randbytes(count)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back once the time has been moved that far."""
        called_off = False

        def call_off() -> None:
            nonlocal called_off
            called_off = True

        def fire() -> None:
            if not called_off:
                callback()

        loop = asyncio.get_running_loop()
        with self._lock:
            self._count += 1
            heapq.heappush(self._timers, (self._now + micros(seconds), self._count, loop, fire))
        self._fire()
        return call_off

    def advance(self, duration: Duration) -> None:
        """Move the time forward (or back, if it is negative) and wake whoever waited for it."""
        with self._lock:
            self._now += micros(duration)
        self._fire()

    def _fire(self) -> None:
        with self._lock:
            due = []
            while self._timers and self._timers[0][0] <= self._now:
                due.append(heapq.heappop(self._timers))
        for _, _, loop, fire in due:
            with suppress(RuntimeError):  # the loop was closed; no one waits there any more
                loop.call_soon_threadsafe(fire)


class Bell:
    """Wakes whoever waits for it, on any event loop, from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: dict[asyncio.Future[None], asyncio.AbstractEventLoop] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def listen(self) -> Listener:
        """Begin to listen: a ring from now on is not missed, even before ``wait`` is called."""
        future = asyncio.get_running_loop().create_future()
        with self._lock:
            self._waiting[future] = future.get_loop()
        return Listener(self, self._clock, future)

    def ring(self) -> None:
        """Wake all who listen."""
        if not self._waiting:
            return
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
        for future, loop in waiting.items():
            by_loop.setdefault(loop, []).append(future)
        here = asyncio._get_running_loop()  # noqa: SLF001 - none, rather than an error, where there is none
        for loop, futures in by_loop.items():
            if loop is here:  # another thread's needs to be told through a pipe
                _wake(futures)
                continue
            with suppress(RuntimeError):  # the loop was closed; no one waits there any more
                loop.call_soon_threadsafe(_wake, futures)

    def forget(self, future: asyncio.Future[None]) -> None:
        """Stop listening."""
        with self._lock:
            self._waiting.pop(future, None)


class Listener:
    """One who listens to a bell, once."""

    def __init__(self, bell: Bell, clock: Clock, future: asyncio.Future[None]) -> None:
        self._bell, self._clock, self._future = bell, clock, future

    async def wait(self, timeout: float) -> None:
        """Wait for the bell, at most so many seconds."""
        call_off = self._clock.call_later(timeout, lambda: _wake([self._future]))
        try:
            await self._future
        finally:
            call_off()
            self.close()

    def close(self) -> None:
        """Stop listening."""
        self._bell.forget(self._future)


def _wake(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
