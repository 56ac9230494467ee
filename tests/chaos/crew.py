"""Other processes, and how a test talks to them: one JSON object a line each way, in order."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[2]
PATIENCE = 40.0
"""Seconds until a process that does not answer is taken for dead: only a test that fails ever waits that long."""
HEAD_START = 20_000_000
"""Nanoseconds until those begin who were told to begin at once: enough for the word to reach them all."""


class Refused(str):
    """The code of an error that a process met, and what the error said."""

    __slots__ = ("message",)
    message: str

    def __new__(cls, code: str, message: str) -> Self:
        refused = super().__new__(cls, code)
        refused.message = message
        return refused

    def __repr__(self) -> str:
        return f"<{self}: {self.message}>"


class Actor:
    """A process of its own that does what it is told; see ``actor.py``."""

    def __init__(self, *arguments: object) -> None:
        self._replies: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        command = [sys.executable, "-m", "tests.chaos.actor", *map(str, arguments)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith(b"\n"):  # else it died as it spoke
                self._replies.put(json.loads(line))
        self._replies.put(None)

    def tell(self, do: str, **more: Any) -> None:
        """Have it do something."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **more}).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        """Wait for its next reply."""
        reply = self._replies.get(timeout=PATIENCE)
        if reply is None:
            raise EOFError(f"the process ended, with {self.process.wait()}")
        if "error" in reply:
            return Refused(reply["error"], reply["message"])
        return reply.get("answer")

    def rest(self) -> list[Any]:
        """Wait for its end, and give all that it had said by then."""
        replies = []
        while (reply := self._replies.get(timeout=PATIENCE)) is not None:
            replies.append(reply.get("answer"))
        return replies

    def ask(self, do: str, **more: Any) -> Any:
        """Have it do something, and wait until it is done: the answer, or the code of an error."""
        self.tell(do, **more)
        return self.hear()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def stop(self) -> None:
        """Stop it, as a debugger or a suspended machine would, and wait until it stands still."""
        self.send(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def die(self) -> None:
        """Kill it, and wait until it is gone."""
        self.process.kill()
        self.process.wait()

    def wait(self) -> int:
        """Wait until it ends by itself, and give its status."""
        return self.process.wait(PATIENCE)

    def end(self) -> None:
        """Let it end; whoever does not is killed."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.close()
            self.process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


Crew = Callable[..., Actor]


@contextmanager
def hire() -> Iterator[Crew]:
    """Start actors that end, in whatever state they are, with the block."""
    actors: list[Actor] = []

    def start(*arguments: object) -> Actor:
        actor = Actor(*arguments)
        actors.append(actor)
        return actor

    try:
        yield start
    finally:
        for actor in actors:
            if actor.process.poll() is None:
                actor.send(signal.SIGCONT)
        for actor in actors:
            actor.end()


def at_once() -> int:
    """Name a moment, by the clock that all processes share, for several to begin at."""
    return time.monotonic_ns() + HEAD_START
