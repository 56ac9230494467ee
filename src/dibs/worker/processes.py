"""Processes for handlers that compute for long, or call what lets no other thread run.

Each has one job at a time, and is kept for the next one. One that dies, or has to be stopped, takes its own job with it
and no other's; another is started when there is something to do for it. So it is with one that has done enough.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from dibs.domain.checks import check_integer
from dibs.domain.errors import Problem
from dibs.domain.failure import describe
from dibs.domain.job import Error
from dibs.domain.signals import Snooze
from dibs.worker import frames
from dibs.worker.finding import imports_of, where_is, where_it_is
from dibs.worker.frames import Done, Hello, Raised, Ready, Run, Stop, Tell, Told
from dibs.worker.group import Leader, exit_code
from dibs.worker.guard import Guard, kill_group
from dibs.worker.settling import Exited, Reported, TimedOut

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from dibs.app import App
    from dibs.claim import Claim
    from dibs.telemetry import Telemetry
    from dibs.worker.finding import Where
    from dibs.worker.renewal import Renewal

PATIENCE = 2.0
"""Seconds that a handler which was told to stop may take to clean up, and an idle process to end."""
LINGER = 0.2
"""Seconds in which the last words of a process that has ended are read: one that it has left may hold the line."""
BOOT = """\
import signal, sys
for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, lambda *_: None)
file, *sys.path = sys.argv[1:]
from dibs.worker.child import main
main(int(file))
"""
"""What a new process does first. Signals that are sent to all of a service are not for it: the worker decides."""


def usable_cpus() -> int:
    """Count the CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_processes(app: App, tasks: Sequence[str], most: int | None, concurrency: int) -> list[Problem]:
    """Check how many processes there shall be, and that they find the functions of the tasks that run in them."""
    problems = [] if most is None else check_integer("handler_processes", most, 1, concurrency)
    if problems and isinstance(most, int) and most > concurrency:
        problems = [Problem("handler_processes", f"no more than {concurrency} handlers run at once; see concurrency")]
    for name in tasks:
        try:
            where_is(app.tasks[name])
        except LookupError as error:
            what = f"{name!r} has process=True and cannot be found by another process: {error.args[0]}"
            problems.append(Problem("tasks", f"{what}; define it at the top of a module"))
    return problems


class Processes:
    """As many processes as there are calls at once, up to ``most``."""

    def __init__(
        self,
        most: int,
        places: Mapping[str, Where],
        hello: Hello,
        renewal: Callable[[], Renewal],
        telemetry: Telemetry | None = None,
    ) -> None:
        self._places = places
        self._hello = hello
        self._renewal = renewal
        self._telemetry = telemetry
        self._turns = asyncio.Semaphore(most)
        self._waiting: set[asyncio.Task[Any]] = set()
        self._idle: list[Process] = []
        self._ending: set[asyncio.Task[None]] = set()
        self._guard = Guard()

    @classmethod
    def of(cls, app: App, tasks: Sequence[str], most: int, renewal: Callable[[], Renewal]) -> Processes:
        """Make those for some tasks of an app."""
        places = {name: where_is(app.tasks[name]) for name in tasks}
        telemetry = app.telemetry
        take_up = None if telemetry is None else where_it_is(telemetry.take_up)
        hello = Hello(imports_of(app), app.runtime.config.max_result_bytes, take_up)
        return cls(most, places, hello, renewal, telemetry)

    async def call(self, claim: Claim, limit: float | None) -> Any:
        """Run the handler of a claim in a process, for so many seconds at the most; give what it returns.

        Whatever ends it before that ends the process: it has come to its end when this returns.
        """
        async with self._turn():
            process = self._take() or await Process.start(self._hello, self._guard, self._renewal())
            try:
                context = None if self._telemetry is None else self._telemetry.context()
                return await process.call(Run(self._places[claim.task], claim.job, context), claim, limit)
            finally:
                if not process.fit:
                    await process.close()
                elif process.spent:
                    self._let_end(process)
                else:
                    self._idle.append(process)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # for the type checker
        self._waiting.add(task)
        try:
            await self._turns.acquire()
        finally:
            self._waiting.discard(task)
        try:
            yield
        finally:
            self._turns.release()

    def begin_nothing_more(self) -> None:
        """Call off those that wait for a process."""
        for task in self._waiting:
            task.cancel()

    def _take(self) -> Process | None:
        while self._idle:
            process = self._idle.pop()
            if process.fit:  # else it has died, and sees to the rest itself
                return process
        return None

    def _let_end(self, process: Process) -> None:
        """Do not wait for its end: its job has ended already."""
        ending = asyncio.get_running_loop().create_task(process.close(), name="dibs-ending")
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """End the processes; none of them is busy any more."""
        idle, self._idle = self._idle, []
        try:
            await asyncio.gather(*self._ending, *(process.close() for process in idle))
        finally:
            self._guard.close()


class Process(Leader):
    """One process, and the line to it."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        guard: Guard,
        renewal: Renewal,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        super().__init__(process, guard)
        self.spent = False  # whether it has done enough
        self._renewal = renewal
        self._reader, self._writer = reader, writer
        self._dropped = False
        loop = asyncio.get_running_loop()
        self._exit.add_done_callback(lambda _: loop.call_later(LINGER, self.drop))

    @classmethod
    async def start(cls, hello: Hello, guard: Guard, renewal: Renewal) -> Process:
        """Start one, and wait until it has imported what it needs."""
        ours, theirs = socket.socketpair()
        with theirs:
            reader, writer = await asyncio.open_unix_connection(sock=ours)
            try:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, *subprocess._args_from_interpreter_flags()),  # type: ignore[attr-defined]  # noqa: SLF001 - as multiprocessing does
                    *("-c", BOOT, str(theirs.fileno()), *sys.path),
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
                # Race: a worker that is killed before the guard knows of the process. It has nothing to do yet, and
                # ends with the line.
                guard.watch(process.pid)
            except BaseException:
                writer.close()
                raise
        started = cls(process, guard, renewal, reader, writer)
        try:
            await started._get_ready(hello)
        except BaseException:
            await started.end()
            await started.close()
            raise
        return started

    async def _get_ready(self, hello: Hello) -> None:
        self._send(hello)
        answer = await self._hear()
        if isinstance(answer, Raised):
            raise _unready(answer)

    @property
    def fit(self) -> bool:
        """Whether it can take a job."""
        return not self._exit.done() and not self._reader.at_eof()

    async def call(self, run: Run, claim: Claim, limit: float | None) -> Any:
        """Have a job done. If that takes too long, or is called off, it is made to end."""
        scope = asyncio.timeout(limit)
        try:
            async with scope:
                self._send(run)
                said = await self._outcome(claim)
        except (Exception, asyncio.CancelledError):
            # Whatever it says after that says nothing about its work, nor about the next one's.
            await self.end()
            if scope.expired():
                raise TimedOut(limit) from None
            raise
        self._renewal.count(1)
        self.spent = self._renewal.due(said.memory)
        if isinstance(said, Raised):
            raise _reported(said)
        return msgspec.json.decode(said.result)

    async def _outcome(self, claim: Claim) -> Done | Raised:
        while True:
            said = await self._hear()
            if isinstance(said, Done | Raised):
                return said
            if isinstance(said, Tell):
                self._send(await _told(claim, said))

    async def _hear(self) -> Ready | Tell | Done | Raised:
        try:
            length = frames.size(await self._reader.readexactly(frames.HEAD))
            return frames.from_process(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            await asyncio.wait([self._exit], timeout=PATIENCE)
            kill_group(self._process.pid)  # it has closed the line, and lives on
            raise _died(await self.ended()) from None

    def _send(self, message: msgspec.Struct) -> None:
        self._writer.write(frames.pack(message))

    # The end

    async def end(self) -> None:
        """Tell it to stop, and make it end if it does not."""
        self._send(Stop())
        await self.stop(PATIENCE)

    async def close(self) -> None:
        """Let it end by itself, make it end if it does not, and let go of it."""
        self._writer.close()
        await asyncio.wait([self._exit], timeout=PATIENCE)
        self.drop()
        await self.ended()
        with suppress(OSError):
            await self._writer.wait_closed()

    def drop(self) -> None:
        """Have nothing left of it, nor of what it has started; once, since its number may soon be another's."""
        if not self._dropped:
            self._dropped = True
            kill_group(self._process.pid)
            self._guard.forget(self._process.pid)
            self._writer.close()


async def _told(claim: Claim, said: Tell) -> Told:
    try:
        await (claim.extend() if said.progress is None else claim.progress(said.progress, said.note))
    except Exception as error:  # noqa: BLE001 - whatever it was is for the handler to know
        return Told.refused(said.number, error)
    return Told(said.number)


def _reported(said: Raised) -> Exception:
    if said.snooze:
        return Snooze(said.delay or 0.0)
    return Reported(said.error, retryable=said.retryable, delay=said.delay, meant=said.meant)


def _unready(said: Raised) -> Reported:
    error = said.error
    message = f"the handler's process could not import what it needs: {error.kind}: {error.message}"
    return Reported(describe(Error(message, error.kind, error.code, error.traceback)))


def _died(status: int) -> Exited:
    code = exit_code(status)
    what = f"has ended with exit status {code}" if status >= 0 else f"was killed by {code}"
    return Exited(Error(f"the handler's process {what}", "exit", code), retryable=True)
