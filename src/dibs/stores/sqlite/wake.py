"""Wake-up: those who wait hear of a job from this process's own commits, and of other processes' from a watcher."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import apsw

from dibs.clock import Bell
from dibs.domain.errors import DibsError
from dibs.domain.job import NEVER
from dibs.domain.retry import SECOND
from dibs.stores.sqlite.notice import Notice
from dibs.stores.sqlite.reading import peek

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from dibs.clock import Clock
    from dibs.domain.job import ClaimRequest
    from dibs.stores.sqlite.connection import Link
    from dibs.stores.sqlite.moment import Moment

_POLL_SECONDS = 0.004  # where the kernel does not tell: about twice this is how long a job may go unnoticed
_REST_SECONDS = 0.003  # between two looks, however much is going on
_ALERT_SECONDS = 0.05  # how long a look may come too early for what the kernel has told of
_DOUBT_SECONDS = 0.25  # how long the kernel's silence is trusted
_SURPRISES = 3  # changes in a row that it did not tell of, until it is no longer asked
_ERROR_SECONDS = 0.25

_Key = tuple[Any, ...]


class _Waiter:
    """One who waits. ``due``: when it will look by itself; until it has looked for the first time, any news is news."""

    __slots__ = ("bell", "due", "request")

    def __init__(self, request: ClaimRequest, bell: Bell) -> None:
        self.request, self.bell, self.due = request, bell, NEVER


class Waiting:
    """All who wait in this process."""

    def __init__(self, clock: Clock, link: Link, snapshot: Callable[[Link, Callable[[Moment], Any]], Any]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._waiters: dict[_Key, dict[_Waiter, None]] = {}
        self._watcher = _Watcher(self, link, snapshot)

    async def wait(
        self,
        request: ClaimRequest,
        timeout: float,
        read: Callable[[Callable[[Moment], tuple[int, int]]], Awaitable[tuple[int, int]]],
    ) -> None:
        """Listen first and look then, so that what comes in between is heard."""
        waiter = _Waiter(request, Bell(self._clock))
        listener = waiter.bell.listen()
        key = (request.queues, request.tasks, request.min_attempts_left, request.order)
        with self._lock:
            self._waiters.setdefault(key, {})[waiter] = None
        try:
            if self._clock.threads:
                self._watcher.wake(self._clock)
            due, now = await read(lambda moment: (peek(moment, request), moment.now))
            waiter.due = due
            if due > now:
                await listener.wait(min(timeout, (due - now) / SECOND))
        finally:
            listener.close()
            with self._lock:
                waiters = self._waiters.get(key, {})
                waiters.pop(waiter, None)
                if not waiters:
                    self._waiters.pop(key, None)

    def announce(self, moment: Moment) -> None:
        """Tell those who want to know what a commit of this process has brought."""
        if not self._waiters or not (moment.awaited or moment.resumed):
            return
        for waiters in self._groups():
            request = waiters[0].request
            due = 0 if moment.resumed else NEVER
            for (queue, task), earliest in moment.awaited.items():
                if earliest < due and request.wants(queue, task):
                    due = earliest
            _ring(waiters, due)

    def look(self, moment: Moment) -> None:
        """Look what there is for those who wait, once for all who want the same."""
        for waiters in self._groups():
            due = peek(moment, waiters[0].request)
            _ring(waiters, 0 if due <= moment.now else due)

    def _groups(self) -> list[list[_Waiter]]:
        with self._lock:
            return [list(waiters) for waiters in self._waiters.values()]

    def __bool__(self) -> bool:
        return bool(self._waiters)

    async def close(self) -> None:
        """Stop watching, and let everyone go."""
        for waiters in self._groups():
            _ring(waiters, 0)
        self._watcher.close()


def _ring(waiters: list[_Waiter], due: int) -> None:
    for waiter in waiters:
        if due < waiter.due:
            waiter.bell.ring()


class _Watcher:
    """A thread that asks SQLite, while someone waits, whether anyone has committed anything.

    It does so when the kernel tells that the WAL was written to, or every few milliseconds where it does not tell.
    ``PRAGMA data_version`` looks at one number in shared memory. Only if it has changed are the lanes looked at. What
    it saw last is kept while no one waits: a commit between two waits counts as a change, so none can be missed.
    """

    def __init__(self, waiting: Waiting, link: Link, snapshot: Callable[[Link, Callable[[Moment], Any]], Any]) -> None:
        self._waiting, self._link, self._snapshot = waiting, link, snapshot
        self._wanted = threading.Event()
        self._stopped = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._seen: tuple[int, int] | None = None
        self._notice: Notice | None = None

    def wake(self, clock: Clock) -> None:
        """Someone waits."""
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    self._stopped.clear()
                    self._notice = Notice.make()
                    self._thread = clock.spawn("dibs-sqlite-watcher", self._loop)
        self._wanted.set()

    def _loop(self) -> None:
        notice, alert, surprises = self._notice, 0.0, 0
        while not self._stopped.is_set():
            if not self._waiting:
                self._wanted.clear()
                if not self._waiting:  # race: one who came before the clear
                    self._wanted.wait()
                alert = time.monotonic()  # what happened meanwhile was not waited for
            try:
                changed = self._poll(notice)
            except DibsError:
                self._stopped.wait(_ERROR_SECONDS)  # those who claim will be told
                continue
            if notice is None:
                time.sleep(_POLL_SECONDS)
                continue
            # Race: the kernel tells of the writing, and the commit is there only once it is on the disk. So what was
            # told keeps us looking for a while.
            if time.monotonic() - alert < _ALERT_SECONDS:
                time.sleep(_REST_SECONDS)
                told = notice.wait(0)
            else:
                surprises += changed
                if surprises >= _SURPRISES:
                    notice = None  # things are written and no one tells: on this file system one has to look
                    continue
                told = notice.wait(_DOUBT_SECONDS)
            if told:
                alert, surprises = time.monotonic(), 0
        with self._link.lock:
            self._link.drop()

    def _poll(self, notice: Notice | None) -> bool:
        """Look whether anything was committed; those who wait are told."""
        with self._link.lock:
            try:
                version = self._link.version()
            except apsw.Error as error:
                raise self._link.failure(error) from error
            if version == self._seen:
                return False
            # Opened, perhaps again: the WAL may be another file than before, and is watched before it is looked at.
            if notice is not None and (self._seen is None or self._seen[0] != version[0]):
                notice.watch(self._link.path + "-wal")
            self._snapshot(self._link, self._waiting.look)
            self._seen = version
            return True

    def close(self) -> None:
        """Stop watching."""
        self._stopped.set()
        self._wanted.set()
        thread, self._thread = self._thread, None
        notice, self._notice = self._notice, None
        if notice is not None:
            notice.wake()
        if thread is not None:
            thread.join()
        if notice is not None:
            notice.close()
