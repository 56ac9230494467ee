"""The processes: producers, workers, API servers. Each can be killed, stopped, and started again."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 30.0


class Member:
    """One process, which is the same one after it was started again: it keeps its name and its files.

    ``source`` is the folder that it has dibs from; none: as this process.
    """

    def __init__(self, role: str, name: str, folder: Path, url: str, *more: object, source: Path | None = None) -> None:
        self.name = name
        self._command = [sys.executable, "-m", f"soak.{role}", url, str(folder), name, *map(str, more)]
        self._log = folder / f"{name}.log"
        self._environment = None if source is None else {**os.environ, "PYTHONPATH": str(source)}
        self._process: subprocess.Popen[bytes] | None = None
        self.absent = True
        """It is not meant to be at work: it was killed, or was told to end."""

    def start(self, *more: object) -> None:
        with self._log.open("a") as said:
            command = [*self._command, *map(str, more)]
            self._process = subprocess.Popen(command, cwd=ROOT, env=self._environment, stdout=said, stderr=said)
        self.absent = False

    def kill(self) -> None:
        """End it as a power cut or the kernel would, and wait until it is gone."""
        self.absent = True
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Let it stand still, as a debugger or a suspended machine would."""
        self._send(signal.SIGSTOP)
        assert self._process is not None
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def go_on(self) -> None:
        self._send(signal.SIGCONT)

    def tell_to_end(self) -> None:
        self.absent = True
        self._send(signal.SIGTERM)

    def end(self) -> str | None:
        """Tell it to end, and wait; say what was wrong with that, if anything."""
        self.tell_to_end()
        return self.ended()

    def ended(self) -> str | None:
        assert self._process is not None
        try:
            status = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            return f"{self.name} did not end within {PATIENCE:g} s of SIGTERM: {self.said()}"
        return None if status == 0 else f"{self.name} ended with status {status}: {self.said()}"

    def gone(self) -> str | None:
        """Say how it has ended by itself, if it has."""
        if self.absent or self._process is None or self._process.poll() is None:
            return None
        return f"{self.name} ended by itself, with status {self._process.returncode}: {self.said()}"

    def said(self) -> str:
        return self._log.read_text()[-3000:]

    def _send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)


class Cast:
    """All of them."""

    def __init__(self, producers: list[Member], workers: list[Member], servers: list[Member]) -> None:
        self.producers, self.workers, self.servers = producers, workers, servers

    def __iter__(self) -> Iterator[Member]:
        yield from (*self.servers, *self.workers, *self.producers)

    def gone(self) -> list[str]:
        """Start again whoever has ended by itself, and say so: no fault may bring that about."""
        said = []
        for member in self:
            if (what := member.gone()) is not None:
                said.append(what)
                member.start()
        return said

    def kill(self) -> None:
        for member in self:
            member.kill()
