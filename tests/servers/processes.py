"""A server that is a child process of no one in particular: started, seen to answer, told to end by any process."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.servers.keeping import Missing

SECONDS = 60
LOOK = 0.02


def start(command: list[Any], folder: Path, answers: Callable[[], bool], env: dict[str, str] | None = None) -> None:
    """Start it in a session of its own, and wait until it answers; its number and its log are in the folder."""
    log = folder / "server.log"
    with log.open("a") as file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
            env=env,
        )
    (folder / "pid").write_text(str(process.pid))
    end = time.monotonic() + SECONDS
    while not answers():
        if process.poll() is not None or time.monotonic() > end:
            raise Missing(f"{command[0]} did not start: {log.read_text()}")
        time.sleep(LOOK)
    process.returncode = 0  # its end is seen to by whoever stops it, so no one need warn of it


def stop(folder: Path, mode: str) -> None:
    """End it, and see that it has ended: ``fast`` as an operator would, ``immediate`` as if it had crashed."""
    pid = number(folder)
    end = time.monotonic() + SECONDS
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM if mode == "fast" else signal.SIGKILL)
    while is_alive(pid):
        if time.monotonic() > end:
            raise Missing(f"process {pid} did not stop")
        time.sleep(LOOK)


def number(folder: Path) -> int:
    return int((folder / "pid").read_text())


def is_alive(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # if it is ours, it would stay as a zombie
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
