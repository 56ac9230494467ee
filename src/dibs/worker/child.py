"""The process of handlers: it calls one function after another, as its worker says, and ends with its worker.

========  ============================================================================================================
main      calls the functions, so that signals and whatever else wants the main thread find it
reader    hears the worker: the next job, answers, and that it is to stop. When the worker ends, so does the process
========  ============================================================================================================
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from contextlib import nullcontext, suppress
from contextvars import copy_context
from functools import cache
from itertools import count
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from dibs.broker.intake import check_extensions
from dibs.claim import Claim, set_current
from dibs.clock import Clock
from dibs.domain.checks import seconds
from dibs.domain.errors import Invalid, InvalidRequest, NotSupported, TooLarge
from dibs.domain.failure import describe
from dibs.domain.job import Extension, Job, Outcome
from dibs.domain.settings import Config
from dibs.domain.signals import Fail, Retry, Snooze
from dibs.domain.validate import encode
from dibs.runtime import Runtime
from dibs.task import Task, Tasks
from dibs.worker import frames
from dibs.worker.finding import Where, find, import_all
from dibs.worker.frames import Done, Hello, Raised, Ready, Run, Stop, Tell, Told
from dibs.worker.renewal import resident

if TYPE_CHECKING:
    from dibs.broker.protocol import Ending
    from dibs.telemetry import TakeUp


class Stopped(SystemExit):
    """Raised in a handler that is to stop: its claim was lost, its time is over, or its worker stops."""


class Handled(Claim):
    """The claim that a handler holds in a process of its own. What it asks for, its worker asks for."""

    def __init__(self, child: Child, job: Job) -> None:
        super().__init__(child.runtime, job.ref, job)
        self._child = child

    async def _extend(self, extension: Extension) -> Outcome:
        check_extensions([extension])
        told = await self._child.ask(extension)
        if told.code == "lease_lost":
            raise self._lose()
        if told.code is not None:
            raise told.error()
        return Outcome.APPLIED

    async def _settle(self, ending: Ending, connection: Any = None) -> NoReturn:  # noqa: ARG002 - it is refused
        raise NotSupported(
            f"a handler with process=True cannot {ending.verb} its claim itself",
            hint="Return the result, or raise dibs.Retry, dibs.Fail or dibs.Snooze; or leave out process=True.",
        )

    def _hold(self) -> None:
        """The worker keeps it."""


class Child:
    """Does what its worker says, over a socket."""

    def __init__(self, line: socket.socket) -> None:
        self.runtime = Runtime("memory://", Clock(), Config.of())  # for its clock and its portal; nothing is stored
        self._line = line
        self._sending = threading.Lock()
        self._runs: SimpleQueue[Run | None] = SimpleQueue()
        self._main = threading.main_thread().ident
        self._claim: Handled | None = None
        self._busy = True  # with imports, at first
        self._stopping = False
        self._to_be_raised = False
        self._numbers = count(1)
        self._asked: dict[int, asyncio.Future[Told]] = {}

    def serve(self) -> None:
        """Work until the worker has nothing more to do, or ends."""
        hello = self._hear()
        if not isinstance(hello, Hello):
            return
        signal.signal(signal.SIGTERM, self._terminated)
        _let_go_in_forks(self._line)
        threading.Thread(target=self._listen, name="dibs-line", daemon=True).start()
        with suppress(Stopped):
            try:
                import_all(hello.imports)
            except Stopped:
                raise
            except BaseException as error:  # noqa: BLE001 - a module may even ask to exit; the worker is told
                self._send(_raised(error))
                return
            self._busy = False
            self._send(Ready())
            take_up = _taking_up(hello.take_up)
            while not self._stopping and (run := self._runs.get()) is not None:
                answer = copy_context().run(self._handle, run, take_up, hello.max_result_bytes)
                self._claim = None
                self._busy = False  # Race: as soon as it has its answer, the worker may close the line, and that is all
                self._send(msgspec.structs.replace(answer, memory=resident()))

    def _handle(self, run: Run, take_up: TakeUp, limit: int) -> Done | Raised:
        claim = self._claim = Handled(self, run.job)
        set_current(claim)
        try:
            task = _task(run.where, run.job.task)
            args, kwargs = task.arguments(claim.params)
            with take_up(run.context or {}):
                result = task.function(*args, **kwargs)
        except Stopped:
            raise
        except BaseException as error:  # noqa: BLE001 - a handler may even ask to exit; the worker is told
            return _raised(error)
        try:
            return Done(encode("result", result, limit, InvalidRequest))
        except (Invalid, TooLarge) as error:
            # To run the handler again would give no other result, and do its work twice.
            return Raised(describe(error), retryable=False)

    # The worker's voice

    def _listen(self) -> None:
        while (said := self._hear()) is not None:
            if isinstance(said, Run):
                self._busy = True
                self._runs.put(said)
            elif isinstance(said, Told):
                if (future := self._asked.pop(said.number, None)) is not None:
                    with suppress(RuntimeError):  # its loop was closed: no one waits any more
                        future.get_loop().call_soon_threadsafe(_answer, future, said)
            elif isinstance(said, Stop):
                self._stop()
        if self._busy:  # the worker was killed: this must not go on without a lease, nor what it has started
            os.killpg(os.getpgrp(), signal.SIGKILL)
        self._runs.put(None)

    def _stop(self) -> None:
        self._stopping = self._to_be_raised = True
        if self._claim is not None:
            self._claim.disown()
        if self._main is not None:
            signal.pthread_kill(self._main, signal.SIGTERM)

    def _terminated(self, *_: object) -> None:
        """Raise, in the main thread, what ends the handler; once, so that it can clean up.

        Unless the worker has said so: then the signal was for all of a service, and the worker decides.
        """
        if self._to_be_raised:
            self._to_be_raised = False
            raise Stopped

    def _hear(self) -> Hello | Run | Told | Stop | None:
        try:
            return frames.from_worker(self._read(frames.size(self._read(frames.HEAD))))
        except (EOFError, OSError):
            return None

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self._line.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)

    # What it says

    def _send(self, message: Ready | Tell | Done | Raised) -> None:
        data = frames.pack(message)
        with suppress(OSError), self._sending:  # the worker has gone; the reader sees to the rest
            self._line.sendall(data)

    async def ask(self, extension: Extension) -> Told:
        """Have the worker extend the claim."""
        number = next(self._numbers)
        future: asyncio.Future[Told] = asyncio.get_running_loop().create_future()
        self._asked[number] = future
        self._send(Tell(number, extension.progress, extension.note))
        try:
            return await future
        finally:
            self._asked.pop(number, None)


def _let_go_in_forks(line: socket.socket) -> None:
    """See that what a handler forks has nothing to do with the worker, and heeds signals: multiprocessing's way to end.

    Race: SIGTERM just after the fork would be ignored as it is here. So it has to wait until that has changed.
    """
    ours = {signal.SIGTERM, signal.SIGINT}
    before = threading.local()

    def hold() -> None:
        before.mask = signal.pthread_sigmask(signal.SIG_BLOCK, ours)

    def go_on() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before.mask)

    def let_go() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        line.close()
        go_on()

    os.register_at_fork(before=hold, after_in_parent=go_on, after_in_child=let_go)


def _answer(future: asyncio.Future[Told], told: Told) -> None:
    if not future.done():
        future.set_result(told)


def _taking_up(where: Where | None) -> TakeUp:
    return (lambda _: nullcontext()) if where is None else find(where)


@cache
def _task(where: Where, name: str) -> Task[..., Any]:
    return Task(find(where), name, {}, Tasks())


def _raised(error: BaseException) -> Raised:
    """Say what is kept of it, and what shall become of the job: as ``settling`` does with what a thread has raised."""
    try:
        if isinstance(error, Snooze):
            return Raised(describe(error), delay=seconds("delay", error.delay), snooze=True)
        if isinstance(error, Retry):
            delay = None if error.delay is None else seconds("delay", error.delay)
            return Raised(describe(error), delay=delay, meant=True)
    except Invalid as invalid:  # a delay that is none: the attempt has failed by the handler's own mistake
        return Raised(describe(invalid))
    return Raised(describe(error), retryable=not isinstance(error, Fail))


def main(file: int) -> None:
    """Serve the worker at the other end of this socket."""
    os.set_inheritable(file, False)  # noqa: FBT003 - what handlers start has nothing to say to the worker
    with socket.socket(fileno=file) as line:
        Child(line).serve()
