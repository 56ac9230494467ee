"""A thread with an event loop of its own, for what must not depend on the caller's: sync calls, beats, maintenance."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread  # noqa: F401 - now: imported by a thread as another forks, it frees a lock that no one took
import contextvars
import logging
import os
import threading
import weakref
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from dibs.domain.errors import WrongState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from dibs.clock import Clock

logger = logging.getLogger("dibs")

T = TypeVar("T")

PATIENCE = 0.25
"""Seconds that calls under way are given to end when the portal stops: enough for any that does not wait for a job."""
LOOK_UP = 0.25
"""Seconds after which a thread that waits looks whether it was interrupted."""
GRACE = 5.0
"""Seconds that a portal which stops gives to what must not be cut short, such as giving claims back."""


class Kind(Enum):
    """What a call means to a portal that stops."""

    ASKED = "someone waits for it"
    BACKGROUND = "runs for ever, and may end at any time"
    PROMISED = "must end by itself"


class Call(Future[T]):
    """Something that runs on a portal. Whoever waits for it may be any thread, or any loop."""

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.kind = kind
        self.task: asyncio.Task[T] | None = None


class Portal:
    """Runs coroutines on its own loop, in a thread that does not keep the process alive."""

    def __init__(self, clock: Clock) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()  # a finaliser may call stop() in the middle of anything
        self._stopping = False
        self._told_to_stop = False
        self._calls: set[Call[Any]] = set()
        self._ended: Future[None] = Future()
        self.loop = asyncio.new_event_loop()
        self._thread = clock.spawn("dibs-portal", self._main)
        _portals.add(self)

    @property
    def alive(self) -> bool:
        """Say whether it still takes calls."""
        return not self._stopping and self._pid == os.getpid() and self._thread.is_alive()

    # For callers

    def submit(self, coroutine: Coroutine[Any, Any, T], kind: Kind = Kind.PROMISED) -> Call[T]:
        """Start a coroutine, without waiting for it."""
        call: Call[T] = Call(kind)
        # What runs for ever would keep whatever its first caller had in its context, such as a claim.
        context = contextvars.Context() if kind is Kind.BACKGROUND else contextvars.copy_context()
        with self._lock:
            # Race: a call that comes while the portal stops. What is scheduled under this lock is seen by the stop.
            if self._stopping or self._pid != os.getpid():
                coroutine.close()
                raise WrongState("the app was closed")
            self._calls.add(call)
            self.loop.call_soon_threadsafe(self._start, call, coroutine, context)
        return call

    def run(self, coroutine: Coroutine[Any, Any, T], undo: Callable[[T], Awaitable[object]] | None = None) -> T:
        """Run a coroutine and wait for it, from any thread but the portal's own.

        If the waiting thread is interrupted (Ctrl-C), the coroutine is cancelled; if it had ended already, ``undo`` is
        called with the result that no one will see.
        """
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise WrongState(
                "a sync call was made on the event loop that carries the sync calls", hint="Use the async one there."
            )
        call = self.submit(coroutine, Kind.ASKED)
        try:
            return _wait_for(call)
        except CancelledError:
            raise WrongState("the app was closed while the call was waiting") from None
        except BaseException as error:
            if not call.done() or call.exception() is not error:
                self._abandon(call, undo)
            raise

    def _abandon(self, call: Call[T], undo: Callable[[T], Awaitable[object]] | None) -> None:
        """Race: the thread was interrupted as its result came. Either the cancellation is first, or it is undone."""

        def ended(_: Future[T]) -> None:
            if undo is not None and not call.cancelled() and call.exception() is None:
                self.submit(_await(undo(call.result())))

        def cancel() -> None:
            if call.task is not None:
                call.task.cancel()

        with suppress(RuntimeError):  # the loop was closed: the portal's end has cancelled it
            self.loop.call_soon_threadsafe(cancel)
        with suppress(WrongState):
            call.add_done_callback(ended)

    @staticmethod
    def here() -> Portal | None:
        """Return the portal on whose thread this runs."""
        return getattr(_here, "portal", None)

    @staticmethod
    async def wait(call: Future[T]) -> T:
        """Wait for a call from any loop; giving up on it does not end it."""
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def wake() -> None:
            if not done.done():
                done.set_result(None)

        def tell(_: Future[T]) -> None:
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(wake)

        call.add_done_callback(tell)
        await done
        return call.result()

    # On the portal's thread

    def _start(self, call: Call[T], coroutine: Coroutine[Any, Any, T], context: contextvars.Context) -> None:
        task: asyncio.Task[T] = self.loop.create_task(coroutine, context=context)
        call.task = task
        task.add_done_callback(lambda _: self._end(call, task), context=context)

    def _end(self, call: Call[T], task: asyncio.Task[T]) -> None:
        self._calls.discard(call)
        if task.cancelled():
            call.cancel()
        elif error := task.exception():
            call.set_exception(error)
        else:
            call.set_result(task.result())

    def _main(self) -> None:
        asyncio.set_event_loop(self.loop)
        _here.portal = self
        try:
            while not self._told_to_stop:
                with suppress(KeyboardInterrupt, SystemExit):  # raised by what ran here, and told to who called it
                    self.loop.run_forever()
            self.loop.run_until_complete(self._wind_up())
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            self.loop.close()
            self._ended.set_result(None)

    async def _wind_up(self) -> None:
        """Let what was asked for end, cancel what runs for ever, and then whatever is left."""
        await self._cancel([call for call in self._calls if call.kind is Kind.BACKGROUND], 0)
        await self._cancel([call for call in self._calls if call.kind is Kind.ASKED], PATIENCE)
        me = asyncio.current_task()
        if rest := [task for task in asyncio.all_tasks() if task is not me]:
            await asyncio.wait(rest, timeout=GRACE)
        while rest := [task for task in asyncio.all_tasks() if task is not me]:
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)

    async def _cancel(self, calls: list[Call[Any]], patience: float) -> None:
        tasks = {call.task for call in calls if call.task is not None}
        if tasks and patience:
            tasks = (await asyncio.wait(tasks, timeout=patience))[1]
        for task in tasks:
            task.cancel()

    # The end

    def stop(self) -> None:
        """Ask it to end, and do not wait. Safe wherever a finaliser may run."""
        if self._pid != os.getpid():
            return  # the loop's file descriptors are the parent's too
        with self._lock:
            if not self._stopping:
                self._stopping = True
                self.loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        """Race: a stop before the loop began to run. Only once this was called is no stop left for what follows."""
        self._told_to_stop = True
        self.loop.stop()

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended."""
        if self._pid == os.getpid() and threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    async def ended(self) -> None:
        """Wait until it has ended, without blocking the loop."""
        await self.wait(self._ended)
        self.join()


def _wait_for(call: Call[T]) -> T:
    """Race: Ctrl-C just before the thread begins to wait would be seen only after it. So it looks up now and then."""
    while not call.done():
        with suppress(TimeoutError):
            call.result(LOOK_UP)
    return call.result()


async def _await(awaitable: Awaitable[object]) -> None:
    await awaitable


_here = threading.local()
_portals: weakref.WeakSet[Portal] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """Race: the interpreter ends while a portal's thread runs Python. Those that still run are ended before it is."""
    portals = [portal for portal in _portals if portal.alive]
    for portal in portals:
        portal.stop()
    for portal in portals:
        portal.join(GRACE + 1)
