"""Functions that run in processes of their own, which find them here by name."""

import asyncio
import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import dibs

_BAD: dict[str, Callable[[], BaseException]] = {
    "error": lambda: ValueError("broken"),
    "own": lambda: Own("mine"),
    "unprintable": lambda: Unprintable("x"),
    "retry": lambda: dibs.Retry("later", delay=0),
    "retry later": lambda: dibs.Retry("later", delay=timedelta(hours=1)),
    "retry before": lambda: dibs.Retry("later", delay=-1),
    "retry as ever": dibs.Retry,
    "fail": lambda: dibs.Fail("never", code="E1"),
    "snooze": lambda: dibs.Snooze(timedelta(hours=1)),
    "snooze wrongly": lambda: dibs.Snooze("soon"),  # type: ignore[arg-type]
    "exit": lambda: SystemExit(3),
    "stop iteration": lambda: StopIteration("x"),
    "interrupt": KeyboardInterrupt,
}
_GOOD: dict[str, Any] = {
    "dict": {"b": [1, 2.5, None], "a": "ä"},
    "none": None,
    "tuple": (1, 2),
    "object": object(),
    "nan": float("nan"),
    "large": "x" * 2_000_000,
}
WAYS = [*_BAD, *_GOOD]


class Own(Exception):
    code = "E2"


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def end(way: str) -> Any:
    """End in one of many ways."""
    if way in _BAD:
        error = _BAD[way]()
        raise error
    return _GOOD[way]


def tell(file: str, *more: int) -> None:
    """Leave a line with our number, and others."""
    line = "".join(f"{number}\n" for number in (os.getpid(), *more))
    opened = os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.write(opened, line.encode())
    os.close(opened)


def pid() -> int:
    return os.getpid()


_leaked: list[bytes] = []


def leak(mib: int) -> int:
    _leaked.append(b"x" * (mib * 1024 * 1024))
    return os.getpid()


def look(a: int, /, *, b: int = 2) -> dict[str, Any]:
    """Say what a handler sees of its claim."""
    claim = dibs.current()
    claim.sync.progress(0.5, "half")
    asyncio.run(claim.progress(0.75, "more"))
    claim.sync.extend()
    refused: list[str] = []
    for call in (
        lambda: claim.sync.progress(2.0),
        lambda: claim.sync.progress("x"),  # type: ignore[arg-type]
        lambda: claim.sync.complete("mine"),
        lambda: claim.sync.fail("mine"),
        claim.sync.release,
    ):
        try:
            call()
        except dibs.DibsError as error:
            refused.append(error.code)
    return {
        "args": [a, b],
        "claim": [claim.id, claim.task, claim.params, claim.fence, claim.attempt, claim.job.queue, claim.lost],
        "refused": refused,
        "name": __name__,
    }


def sleep(file: str, seconds: float) -> int:
    tell(file)
    time.sleep(seconds)
    return os.getpid()


def hold_everything(file: str, seconds: float) -> int:
    """Wait in C without letting any other thread of the process run."""
    tell(file)
    ctypes.PyDLL(None).poll(None, 0, int(seconds * 1000))
    return os.getpid()


def clean_up(file: str) -> None:
    """Wait with a program of its own, and leave word when told to stop."""
    program = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
    tell(file, program.pid)
    try:
        time.sleep(60)
    finally:
        Path(f"{file}.lost").write_text(str(dibs.current().lost))


def return_all_the_same(file: str) -> str:
    tell(file)
    try:
        time.sleep(60)
    except SystemExit:
        return "late"
    return "not reached"


def will_not(file: str) -> None:
    tell(file)
    while True:
        try:
            time.sleep(60)
        except BaseException as error:  # noqa: BLE001 - it will not be stopped
            Path(f"{file}.told").write_text(type(error).__name__)


def die(how: str) -> None:
    if how == "exit":
        os._exit(3)
    number = getattr(signal, how)
    signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
    os.kill(os.getpid(), number)
    time.sleep(60)


def leave_someone_behind() -> None:
    """End, but not the line: a process that was forked has it too."""
    if os.fork() == 0:
        time.sleep(60)
    os._exit(4)


def fork() -> int | None:
    """Have a process of its own, and end it as multiprocessing does: by SIGTERM."""
    forked = multiprocessing.get_context("fork").Process(target=time.sleep, args=[60])
    forked.start()
    forked.terminate()
    forked.join()
    return forked.exitcode


nameless = lambda: None  # noqa: E731 - it is to be nameless


def renamed() -> None: ...


was_renamed, renamed = renamed, pid  # type: ignore[assignment]
