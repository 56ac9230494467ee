"""No program outlives its worker: a small process that waits for the worker's end, and then kills what it left behind.

A worker that is killed can do nothing any more, and its programs would go on without a lease. So it tells this process,
through a pipe, which process groups there are. The pipe ends with the worker, however that ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress

START, END = b"+", b"-"


class Guard:
    """Has process groups killed if this process ends before they do."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None

    def watch(self, group: int) -> None:
        """See to it that this group does not outlive us; from the moment in which this returns."""
        self._groups.add(group)
        self._tell(START, group)

    def forget(self, group: int) -> None:
        """The group has ended; its number may soon be another's."""
        self._groups.discard(group)
        self._tell(END, group)

    def close(self) -> None:
        """End it. It kills what it was told of and not told to forget."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None  # noqa: S101  # for the type checker
            process.stdin.close()
            process.wait()

    def _tell(self, what: bytes, group: int) -> None:
        if self._process is not None:
            try:
                _write(self._process, what, group)
                return
            except BrokenPipeError:  # it was killed; another takes its place, and is told of all there are
                self.close()
        self._process = subprocess.Popen(  # noqa: S603 - this very file
            # As bare as can be: it is to be there at once, and takes nothing from the folder or the environment.
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for the worker: it does not reach those of another session
        )
        for each in self._groups:
            _write(self._process, START, each)


def _write(process: subprocess.Popen[bytes], what: bytes, group: int) -> None:
    assert process.stdin is not None  # noqa: S101  # for the type checker
    process.stdin.write(b"%s%d\n" % (what, group))  # so short that it is written whole or not at all


def kill_group(group: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to all of a group that are still there, and may be sent one."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def main() -> None:
    """Wait for the end of stdin, then kill."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a service manager signals all of a service; it is needed until the end
    groups: set[int] = set()
    for line in sys.stdin.buffer:
        (groups.add if line.startswith(START) else groups.discard)(int(line[1:]))
    for group in groups:
        kill_group(group)


if __name__ == "__main__":
    main()
