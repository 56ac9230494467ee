"""Several worker processes, and the one that looks after them: it replaces the dead and the spent, and stops them all.

=======  =============================================================================================================
crew     starts the processes, and lives as long as the command; it runs no handlers
member   one of them: a worker as any other, but for the signals, which the crew passes on over a line
=======  =============================================================================================================

Signals that a service manager sends to all of a service do not reach members: the crew decides. When the crew is gone,
the line ends, and its members finish what runs and end too. A spent one has ended before the next begins, so there are
never more handlers at once than were asked for.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from dibs.worker.group import exit_code

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.clock import Clock
    from dibs.worker.worker import Worker

logger = logging.getLogger("dibs")

MOST = 64
SIGNALS = (signal.SIGTERM, signal.SIGINT)
SPENT = 99
"""The exit status of a member that is to be renewed."""
PAUSE, LONGEST_PAUSE = 0.1, 30.0
"""Seconds before a dead process is replaced: the first time, and if it dies again and again."""
STEADY = 10.0
"""Seconds after which a process counts as one that works."""
PATIENCE = 10.0
"""Seconds beyond the grace time until those that do not end are killed."""
BOOT = """\
import signal, sys
for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, lambda *_: None)
where, order, file, place, *sys.path = sys.argv[1:]
del sys.argv[1:]
module, name = where.split(":")
sys.exit(getattr(__import__(module, fromlist=[name]), name)(order, int(file), int(place)))
"""
"""What a member does first: signals are not for it. Then it calls the function that is named."""


class Crew:
    """So many processes, each at work until it is told to stop; ``until_idle``: or until it has nothing left to do.

    ``member`` says which function each of them calls, as ``module:name``: with ``order``, the number of its end of the
    line, and its place among the others. ``on_gone`` is told the place of one that has ended, before the next begins.
    """

    def __init__(
        self,
        member: str,
        order: str,
        number: int,
        clock: Clock,
        *,
        grace: float,
        until_idle: bool = False,
        on_gone: Callable[[int], None] | None = None,
    ) -> None:
        self._member, self._order = member, order
        self._number = number
        self._clock = clock
        self._grace = grace
        self._until_idle = until_idle
        self._on_gone = on_gone
        self._members: dict[int, Member] = {}
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Work until SIGTERM or Ctrl-C, and until all have ended; at the second one they do not wait for handlers."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._signalled, number)
        places = [asyncio.ensure_future(self._keep(place)) for place in range(self._number)]
        stopped = asyncio.ensure_future(self._stopped.wait())
        try:
            while not stopped.done() and not all(place.done() for place in places):
                await asyncio.wait(
                    [stopped, *(each for each in places if not each.done())], return_when="FIRST_COMPLETED"
                )
            await asyncio.wait(places, timeout=self._grace + PATIENCE)
            for member in self._members.values():
                logger.warning("worker process %d did not stop in time, and is killed", member.pid)
        finally:
            stopped.cancel()
            for member in self._members.values():
                member.kill()
            await asyncio.gather(*places)
            for number in SIGNALS:
                loop.remove_signal_handler(number)

    def _signalled(self, number: int) -> None:
        self._stopped.set()
        for member in self._members.values():
            member.tell(number)

    async def _keep(self, place: int) -> None:
        """Keep one process at work: when it is spent, or has died, another takes its place."""
        deaths = 0
        while not self._stopped.is_set():
            began = self._clock.monotonic()
            member, status = await self._run_one(place)
            if self._stopped.is_set() or (self._until_idle and status == 0):
                return
            if status == SPENT:
                deaths = 0
                continue
            deaths = 1 if self._clock.monotonic() - began >= STEADY else deaths + 1
            pause = min(LONGEST_PAUSE, PAUSE * 2.0 ** min(deaths - 1, 20))
            logger.warning("%s; another takes its place in %.1f s", member, pause)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), pause)

    async def _run_one(self, place: int) -> tuple[str, int | None]:
        """Run a process to its end; say what became of it, and its exit status."""
        try:
            member = await Member.start(self._member, self._order, place)
        except OSError as error:  # the machine has no room for it just now
            return f"a worker process cannot be started: {error}", None
        self._members[place] = member
        if self._stopped.is_set():  # Race: told to stop as it was started, and not yet known
            member.tell(signal.SIGTERM)
        try:
            status = await member.ended()
        finally:
            del self._members[place]
        if self._on_gone is not None:
            self._on_gone(place)
        return f"worker process {member.pid} has ended with {exit_code(status)}", status


class Member:
    """One process, and the line to it."""

    def __init__(self, process: asyncio.subprocess.Process, line: socket.socket) -> None:
        self._process = process
        self._line = line
        self.pid = process.pid

    @classmethod
    async def start(cls, member: str, order: str, place: int) -> Member:
        """Start one."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, *subprocess._args_from_interpreter_flags()),  # type: ignore[attr-defined]  # noqa: SLF001 - as multiprocessing does
                    *("-c", BOOT, member, order, str(theirs.fileno()), str(place), *sys.path),
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                )
            except BaseException:
                ours.close()
                raise
        return cls(process, ours)

    def tell(self, number: int) -> None:
        """Pass a signal on; if it cannot hear yet, it will."""
        with suppress(OSError):  # it has ended
            self._line.send(bytes([number]))

    async def ended(self) -> int:
        """Wait until it has ended; give its exit status, below zero if a signal ended it."""
        try:
            return await self._process.wait()
        finally:
            self._line.close()

    def kill(self) -> None:
        """Make it end."""
        with suppress(ProcessLookupError):
            self._process.kill()


# In a member


def serve(worker: Worker, file: int, left_alone: Callable[[], None], *, until_idle: bool = False) -> int:
    """Run a worker as this process's only business, until the crew says otherwise, or is gone; give the exit status."""
    os.set_inheritable(file, False)  # noqa: FBT003 - what handlers start has nothing to do with the crew
    with socket.socket(fileno=file) as line:
        line.settimeout(0)
        asyncio.run(_serve(worker, line, left_alone, until_idle=until_idle))
    return SPENT if worker.spent else 0


async def _serve(worker: Worker, line: socket.socket, left_alone: Callable[[], None], *, until_idle: bool) -> None:
    listening = asyncio.ensure_future(_listen(worker, line, left_alone))
    try:
        async with worker.app:
            await worker.run(until_idle=until_idle)
    finally:
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening


async def _listen(worker: Worker, line: socket.socket, left_alone: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    with suppress(OSError):
        while said := await loop.sock_recv(line, 1):
            worker.signalled(said[0])
    logger.warning("whoever looks after worker %s is gone: finishing what runs", worker.worker_id)
    left_alone()
    worker.stop()
