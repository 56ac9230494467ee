"""A server in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Self

PATIENCE = 30.0
MAIN = "from dibs.cli import main; main()"
STARTED = re.compile(r"on (https?://\S+:(\d+))")


class Serving:
    """``dibs serve`` on a SQLite file in a folder; ``start`` it again on the same port after it has ended."""

    def __init__(self, folder: Path, *options: str, port: int = 0, code: str = MAIN) -> None:
        self.folder = folder
        self.file = folder / "jobs.db"
        self.store = f"sqlite:///{self.file}"
        self.port = port
        self.said: list[str] = []
        self._options = options
        self._code = code
        self.process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [sys.executable, "-c", self._code, "serve", "--store", self.store]
        self.process = subprocess.Popen(
            [*command, "--port", str(self.port), *self._options],
            cwd=self.folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            if started := STARTED.search(line):
                self.port = int(started[2])
                break
        else:
            raise AssertionError("".join(self.said))
        self._reading = threading.Thread(target=self._read_on, args=(self.process,), daemon=True)
        self._reading.start()

    def _read_on(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            self.said += lines

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait until the process has ended, and what it said was read."""
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        self._reading.join(PATIENCE)
        return code

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
