"""Several processes that serve one port, and the one that watches them: it replaces the dead, and stops all of them."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.context import SpawnProcess

    from dibs.clock import Clock
    from dibs.server.tls import Certificate

logger = logging.getLogger("dibs")

LIMITS = "limits"
"""The file of what is counted together, in the folder of what is shared."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
MOST = 64
GRACE = 10.0
"""Seconds until processes that were told to stop are killed: more than they give to their own requests."""
PAUSE, LONGEST_PAUSE = 0.1, 30.0
"""Seconds before a dead process is replaced: the first time, and if it dies again and again."""
STEADY = 10.0
"""Seconds after which a process counts as one that works."""

# Each begins anew: a fork would share the threads, loops and connections of whoever watches.
_spawning = get_context("spawn")


class Post(NamedTuple):
    """What every process is to do."""

    url: str
    listening: socket.socket
    auth: bool
    certificate: Certificate | None
    log_requests: bool
    check_params: bool


class Seat(NamedTuple):
    """A process's place among the others, for its whole life."""

    place: int
    folder: Path  # of what they share
    speaking: Connection

    def report(self) -> None:
        """Say that this process listens."""
        with suppress(OSError):
            self.speaking.send_bytes(b"listening")

    def when_left_alone(self, stop: Callable[[], None]) -> None:
        """Stop if whoever watches is gone: no one else would. The port is free then for the next server."""
        watcher = parent_process()
        if watcher is None:
            return
        loop, sentinel = asyncio.get_running_loop(), watcher.sentinel

        def left_alone() -> None:
            loop.remove_reader(sentinel)
            stop()

        loop.add_reader(sentinel, left_alone)

    def leave(self) -> None:
        """Remove what was shared, if whoever watches cannot any more; the others still write their own numbers."""
        watcher = parent_process()
        if watcher is not None and not watcher.is_alive():
            for file in (*self.folder.glob(f"*_{self.place}.db"), self.folder / LIMITS):
                file.unlink(missing_ok=True)
            with suppress(OSError):  # the last one does it
                self.folder.rmdir()


Work = Callable[[Post, Seat], None]


class _Place:
    """One of the places, and the process that has it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: SpawnProcess | None = None
        self.news: Connection | None = None
        self.began = self.due = 0.0
        self.deaths = 0

    def start(self, work: Work, post: Post, folder: Path, now: float) -> None:
        """Start a process here."""
        self.began = now
        self.news, speaking = _spawning.Pipe(duplex=False)
        process = _spawning.Process(
            target=work, args=(post, Seat(self.number, folder, speaking)), name=f"dibs-{self.number}", daemon=True
        )
        # A signal that comes before the new process can listen to it waits there until it does. The tracker, which is
        # started along with the first process, would let signals through again: it has to be there before.
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            speaking.close()
        self.process = process

    def bury(self, now: float) -> str:
        """Note that the process has ended, and when the next begins; say how it ended."""
        assert self.process is not None  # noqa: S101  # for the type checker
        self.process.join()
        code = self.process.exitcode or 0
        self.process.close()
        self.process = None
        self.pause(now)
        return f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"

    def pause(self, now: float) -> None:
        """Leave the place empty for a while: for ever longer, if no one lasts here."""
        self.hear_no_more()
        self.deaths = 1 if now - self.began >= STEADY else self.deaths + 1
        self.due = now + min(LONGEST_PAUSE, PAUSE * 2.0 ** min(self.deaths - 1, 20))

    def hear_no_more(self) -> None:
        if self.news is not None:
            self.news.close()
            self.news = None


def oversee(work: Work, post: Post, number: int, clock: Clock, *, started: Callable[[], None]) -> None:
    """Run so many processes until SIGTERM or Ctrl-C."""
    with TemporaryDirectory(prefix="dibs-") as folder, _told() as told:
        crew = _Crew(work, post, Path(folder), clock, [_Place(place) for place in range(number)])
        crew.watch(told, started)
        post.listening.close()  # whoever comes now is refused, and does not wait for no one
        crew.stop(told)


class _Crew:
    def __init__(self, work: Work, post: Post, folder: Path, clock: Clock, places: list[_Place]) -> None:
        self._work, self._post, self._folder, self._clock = work, post, folder, clock
        self._places = places
        self._unheard = set(places)

    def watch(self, told: socket.socket, started: Callable[[], None]) -> None:
        """Start all, and replace those that die, until there is a signal."""
        while True:
            now = self._clock.monotonic()
            for place in self._places:
                if place.process is None and place.due <= now:
                    self._start(place, now)
            ready = wait([told, *self._sentinels(), *self._news()], self._until_due(now))
            if told in ready:
                told.recv(1)
                return
            self._hear(ready, started)
            self._bury(ready)

    def stop(self, told: socket.socket) -> None:
        """Tell all to stop, and wait until they have; a second Ctrl-C is passed on, and does not wait for requests."""
        self._signal(signal.SIGTERM)
        deadline = self._clock.monotonic() + GRACE
        while (sentinels := self._sentinels()) and (left := deadline - self._clock.monotonic()) > 0:
            ready = wait([told, *sentinels], left)
            if told in ready:
                self._signal(signal.Signals(told.recv(1)[0]))
            for place in self._places:
                if place.process is not None and place.process.sentinel in ready:
                    place.bury(0.0)
        for place in self._places:
            if place.process is not None:
                logger.warning("process %d did not stop within %g s, and is killed", place.process.pid, GRACE)
                place.process.kill()
                place.bury(0.0)

    def _start(self, place: _Place, now: float) -> None:
        try:
            place.start(self._work, self._post, self._folder, now)
        except OSError as error:  # the machine has no room for it just now
            place.pause(now)
            logger.warning("a process cannot be started: %s; it is tried again in %.1f s", error, place.due - now)

    def _sentinels(self) -> list[int]:
        return [place.process.sentinel for place in self._places if place.process is not None]

    def _news(self) -> list[Connection]:
        return [place.news for place in self._places if place.news is not None]

    def _until_due(self, now: float) -> float | None:
        due = [place.due - now for place in self._places if place.process is None]
        return max(0.0, min(due)) if due else None

    def _hear(self, ready: Sequence[object], started: Callable[[], None]) -> None:
        for place in self._places:
            if place.news is None or place.news not in ready:
                continue
            listens = True
            try:
                place.news.recv_bytes()
            except EOFError:
                listens = False
            place.hear_no_more()
            if listens and place in self._unheard:
                self._unheard.discard(place)
                if not self._unheard:
                    started()

    def _bury(self, ready: Sequence[object]) -> None:
        for place in self._places:
            if place.process is not None and place.process.sentinel in ready:
                pid, now = place.process.pid, self._clock.monotonic()
                how = place.bury(now)
                logger.warning("process %d %s; another takes its place in %.1f s", pid, how, place.due - now)

    def _signal(self, number: signal.Signals) -> None:
        for place in self._places:
            if place.process is not None and place.process.pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(place.process.pid, number)


@contextmanager
def _told() -> Iterator[socket.socket]:
    """Turn signals into bytes that can be waited for together with everything else."""
    told, tell = socket.socketpair()
    tell.settimeout(0)

    def pass_on(number: int, _: object) -> None:
        with suppress(BlockingIOError):
            tell.send(bytes([number]))

    before = {number: signal.signal(number, pass_on) for number in SIGNALS}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        told.close()
        tell.close()
