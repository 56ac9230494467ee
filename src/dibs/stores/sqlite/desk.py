"""Who runs transactions: one thread and one connection each for writing, for short reads and for long ones.

A caller leaves its work at a desk and waits. While one batch is on its way the next one gathers, so nothing waits for
company, and a crowd shares one commit.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dibs.domain.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dibs.clock import Clock
    from dibs.stores.sqlite.connection import Link
    from dibs.stores.sqlite.moment import Moment

T = TypeVar("T")

_WORTH_A_CALL = 16  # jobs from which the making of an answer is worth a call into its event loop


class Later(Generic[T]):
    """An answer of which only the making is left, in Python and without the connection: its caller's thread does that.

    If there is much to make, it begins while the writer waits for the disk, so that it costs no time of its own.
    """

    __slots__ = ("_made", "_make", "size")

    def __init__(self, make: Callable[[], T], size: int) -> None:
        self._make, self.size = make, size
        self._made: T | None = None

    def get(self) -> T:
        """Make it, once."""
        if self._made is None:
            self._made = self._make()
        return self._made


class Work(Generic[T]):
    """What one caller wants done, and where the answer goes."""

    __slots__ = ("error", "future", "result", "run")

    def __init__(self, run: Callable[[Moment], T | Later[T]]) -> None:
        self.run = run
        self.future: asyncio.Future[T] | None = None
        self.result: T | Later[T] | None = None
        self.error: BaseException | None = None

    def answer(self) -> T:
        """Give the result, or raise what went wrong."""
        if self.error is not None:
            raise self.error
        if isinstance(self.result, Later):
            return self.result.get()
        return self.result  # type: ignore[return-value]  # set, once it has run without an error


class Desk:
    """Takes work from any thread and event loop, and has ``serve`` do it, in one thread or at once if there is none."""

    def __init__(self, name: str, link: Link, clock: Clock, serve: Callable[[list[Work[Any]]], None]) -> None:
        self._name, self._link, self._clock, self._serve = name, link, clock, serve
        self._queue: SimpleQueue[Work[Any] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    async def ask(self, run: Callable[[Moment], T | Later[T]]) -> T:
        """Leave work and wait for its answer. If the caller is cancelled, the work is done all the same."""
        work = Work(run)
        if not self._clock.threads:
            if self._closed:
                raise StoreUnavailable("the store is closed", hint="Open it again, or close it later.")
            self._do([work])
            self._tidy()
            return work.answer()
        work.future = asyncio.get_running_loop().create_future()
        # Race: close. Whatever is put down before the end is done, and nothing can be put down after it.
        with self._lock:
            if self._closed:
                raise StoreUnavailable("the store is closed", hint="Open it again, or close it later.")
            self._queue.put(work)
            if self._thread is None:
                self._thread = self._clock.spawn(self._name, self._loop)
        return await work.future

    async def close(self) -> None:
        """Finish what was left here, then let go of the connection."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            await asyncio.get_running_loop().run_in_executor(None, thread.join)
        with self._link.lock:
            self._link.drop()

    def reopen(self) -> None:
        """Take work again."""
        self._closed = False

    def _loop(self) -> None:
        while True:
            batch = [self._queue.get()]
            while not self._queue.empty():
                batch.append(self._queue.get())
            if todo := [work for work in batch if work is not None]:
                self._do(todo)
                deliver(todo)
                self._tidy()
            if None in batch:
                return

    def _do(self, todo: list[Work[Any]]) -> None:
        # The lock is free but for a fork, which waits until no connection is open.
        with self._link.lock:
            try:
                self._serve(todo)
            except Exception as error:  # noqa: BLE001  # the thread must live on, and no caller wait for ever
                for work in todo:
                    work.error = error

    def _tidy(self) -> None:
        with self._link.lock:
            self._link.checkpoint()


def prepare(done: Sequence[Work[Any]]) -> None:
    """Before the commit: have long answers made by the time that it is through. If it fails, no one sees them."""
    for work in done:
        if work.future is not None and isinstance(work.result, Later) and work.result.size >= _WORTH_A_CALL:
            with suppress(RuntimeError):  # as in deliver
                work.future.get_loop().call_soon_threadsafe(_make, work.result)


def _make(later: Later[Any]) -> None:
    with suppress(Exception):  # it is raised again, to the caller, when the answer is handed out
        later.get()


def deliver(done: Sequence[Work[Any]]) -> None:
    """Hand out answers: one call into each event loop, however many wait there."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Work[Any]]] = {}
    for work in done:
        if work.future is not None:
            by_loop.setdefault(work.future.get_loop(), []).append(work)
    for loop, works in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed: no one waits there any more
            loop.call_soon_threadsafe(_deliver, works)


def _deliver(works: list[Work[Any]]) -> None:
    for work in works:
        if work.future is None or work.future.done():
            continue
        try:
            work.future.set_result(work.answer())
        except Exception as error:  # noqa: BLE001  # it is the caller's, and reaches it
            work.future.set_exception(error)
