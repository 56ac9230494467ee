"""Processes that lead a group of their own; and one run of a command, fed and read without ever waiting for it."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from dibs.worker.guard import kill_group

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dibs.worker.guard import Guard

GATE = 'IFS= read -r _ && exec "$@"'
"""Race: a worker that is killed after it has started the command and before the guard knows of it. So the command is
not begun before a first line comes, which is sent when the guard knows; what follows it on stdin is the command's own.
(test_a_command_does_not_begin_before_the_guard_knows)"""
AT_ONCE = 64 * 1024
LINGER = 1.0
"""Seconds that are waited for the end of the output, once the command has ended: others may hold the pipes open."""


class Leader:
    """A process that leads a session of its own: no terminal stops it, and a signal reaches all that it started."""

    def __init__(self, process: asyncio.subprocess.Process, guard: Guard) -> None:
        self._process = process
        self._guard = guard
        self._exit = asyncio.ensure_future(process.wait())

    def send(self, number: signal.Signals) -> None:
        """Send all of it a signal."""
        if not self._exit.done():
            kill_group(self._process.pid, number)

    async def ended(self) -> int:
        """Wait until it has ended; give its exit status, below zero if a signal ended it."""
        await asyncio.wait([self._exit])
        return self._exit.result()

    async def stop(self, patience: float) -> None:
        """Ask it to end, and make it end if it does not."""
        self.send(signal.SIGTERM)
        with suppress(asyncio.CancelledError):  # asked to be quicker
            await asyncio.wait([self._exit], timeout=patience)
        kill_group(self._process.pid)
        while not self._exit.done():
            with suppress(asyncio.CancelledError):  # it is ending, and is not left behind
                await asyncio.wait([self._exit])


class Group(Leader):
    """One run of a command, which is fed and read."""

    def __init__(self, process: asyncio.subprocess.Process, guard: Guard, pipes: Sequence[Inlet | Outlet]) -> None:
        super().__init__(process, guard)
        self._pipes = pipes

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        environment: Mapping[str, str],
        guard: Guard,
        *,
        feed: bytes,
        out: Callable[[bytes], None],
        err: Callable[[bytes], None],
    ) -> Group:
        """Start a command with ``feed`` as its stdin; ``out`` and ``err`` are given what it prints, as it comes."""
        (their_in, our_in), (our_out, their_out), (our_err, their_err) = (os.pipe() for _ in range(3))
        ours, theirs = (our_in, our_out, our_err), (their_in, their_out, their_err)
        try:
            process = await asyncio.create_subprocess_exec(
                *("/bin/sh", "-c", GATE, "dibs", *command),
                stdin=their_in,
                stdout=their_out,
                stderr=their_err,
                env=environment,
                start_new_session=True,
            )
            guard.watch(process.pid)
        except BaseException:
            _close(ours)  # nothing was begun: the gate is shut, and whoever stands there leaves
            raise
        finally:
            _close(theirs)
        return cls(process, guard, [Inlet(our_in, b"\n" + feed), Outlet(our_out, out), Outlet(our_err, err)])

    def pass_on(self, number: signal.Signals) -> None:
        """Send the command a signal, and it alone: those that it has started may know no other answer than to die."""
        if not self._exit.done():
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def close(self) -> None:
        """Kill whatever the command has left behind, and read the end of what it printed."""
        kill_group(self._process.pid)
        try:
            ends = [pipe.ended for pipe in self._pipes if isinstance(pipe, Outlet)]
            await asyncio.wait(ends, timeout=LINGER)
        finally:
            for pipe in self._pipes:
                pipe.close()
            self._guard.forget(self._process.pid)


class Inlet:
    """Writes into a pipe what it takes, and no more than it takes."""

    def __init__(self, file: int, data: bytes) -> None:
        self._file: int | None = file
        self._left = memoryview(data)
        self._loop = asyncio.get_running_loop()
        os.set_blocking(file, False)
        self._loop.add_writer(file, self._write, file)

    def _write(self, file: int) -> None:
        try:
            self._left = self._left[os.write(file, self._left[:AT_ONCE]) :]
        except BlockingIOError:
            return
        except OSError:  # it does not want to know
            self.close()
            return
        if not self._left:
            self.close()

    def close(self) -> None:
        """Write no more."""
        file, self._file = self._file, None
        if file is not None:
            self._loop.remove_writer(file)
            os.close(file)


class Outlet:
    """Reads a pipe to its end, piece by piece."""

    def __init__(self, file: int, take: Callable[[bytes], None]) -> None:
        self._file: int | None = file
        self._take = take
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(file, False)
        self._loop.add_reader(file, self._read, file)

    def _read(self, file: int) -> None:
        try:
            data = os.read(file, AT_ONCE)
        except BlockingIOError:
            return
        if data:
            self._take(data)
        else:
            self.close()

    def close(self) -> None:
        """Read no more."""
        file, self._file = self._file, None
        if file is not None:
            self._loop.remove_reader(file)
            os.close(file)
            self.ended.set_result(None)


def exit_code(status: int) -> str:
    """Name an exit status, or the signal that ended a process."""
    if status >= 0:
        return str(status)
    try:
        return signal.Signals(-status).name
    except ValueError:  # one of those that have no name
        return f"signal {-status}"


def _close(files: Sequence[int]) -> None:
    for file in files:
        os.close(file)
