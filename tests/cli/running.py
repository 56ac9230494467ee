"""``dibs`` as a user meets it: a process, what it prints, and what it ends with."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DIBS = [sys.executable, "-m", "dibs"]
PATIENCE = 50.0


class Place:
    """A store or a server, by the environment that names it."""

    def __init__(self, folder: Path, url: str, key: str | None = None) -> None:
        self.folder = folder
        self.url = url
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("DIBS_")}
        self.environment["DIBS_STORE"] = url
        self.environment.pop("COLUMNS", None)
        if key is not None:
            self.environment["DIBS_API_KEY"] = key

    def dibs(
        self, *args: str, code: int = 0, given: str | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command, which ends with this code and never with a traceback."""
        done = subprocess.run(
            [*DIBS, *args],
            check=False,
            cwd=self.folder,
            env={**self.environment, **(env or {})},
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == code, (args, done.stdout, done.stderr)
        return done

    def json(self, *args: str, given: str | None = None) -> list[Any]:
        """Run a command with ``--json``, and read what it prints, line by line."""
        return [json.loads(line) for line in self.dibs(*args, "--json", given=given).stdout.splitlines()]

    def terminal(self, *args: str, env: Mapping[str, str] | None = None, columns: int = 80) -> Terminal:
        """Run a command on a terminal of its own."""
        return Terminal(args, self, {**self.environment, "TERM": "xterm", **(env or {})}, columns)


class Terminal:
    """A command on a pseudo-terminal: what is typed, and what is seen."""

    def __init__(self, args: tuple[str, ...], place: Place, environment: dict[str, str], columns: int) -> None:
        import fcntl
        import struct
        import termios

        self.seen = ""
        self._fd, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
        self.process = subprocess.Popen(
            [*DIBS, *args],
            cwd=place.folder,
            env=environment,
            stdin=inside,
            stdout=inside,
            stderr=inside,
            start_new_session=True,
        )
        os.close(inside)

    def until(self, text: str) -> str:
        """Read until this has been seen."""
        end = time.monotonic() + PATIENCE
        while text not in self.seen:
            assert time.monotonic() < end, self.seen
            assert self._read(), (text, self.seen)
        return self.seen

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Read all that is left, and give the exit code."""
        while self._read():
            pass
        os.close(self._fd)
        return self.process.wait(PATIENCE)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._fd], [], [], PATIENCE)
        assert ready, self.seen
        try:
            more = os.read(self._fd, 65536)
        except OSError:  # the other end was closed: so Linux says it
            return False
        self.seen += more.decode(errors="replace").replace("\r\n", "\n")
        return bool(more)
