"""The time of day, as the processes of a soak see it: the machine's, and what a file and they themselves are off by.

Only the time of day is moved, by which SQLite's store decides; durations are measured as ever, and so are histories.
"""

import time
from contextlib import suppress
from pathlib import Path

LOOK = 0.02
"""Seconds after which the file is read again: the clocks of all processes jump as good as together."""


class _Moved:
    def __init__(self, file: Path, off: float) -> None:
        self._file, self._off = file, off
        self._by = off
        self._looked = 0.0

    def by(self) -> float:
        now = time.monotonic()
        if now - self._looked > LOOK:
            self._looked = now
            with suppress(FileNotFoundError):  # it was never moved
                self._by = self._off + float(self._file.read_text())
        return self._by


def follow(folder: Path, off: float = 0.0) -> None:
    """Let this process have the time of day of the others in a folder, so many seconds off."""
    moved, time_of_day, in_nanoseconds = _Moved(_file(folder), off), time.time, time.time_ns
    time.time = lambda: time_of_day() + moved.by()
    time.time_ns = lambda: in_nanoseconds() + round(moved.by() * 1e9)


def jump(folder: Path, seconds: float) -> None:
    """Let the time of day of all who follow jump, as when a machine's clock is set."""
    file = _file(folder)
    before = float(file.read_text()) if file.exists() else 0.0
    new = file.with_suffix(".new")
    new.write_text(str(before + seconds))
    new.replace(file)  # whoever reads sees one or the other


def _file(folder: Path) -> Path:
    return folder / "clock"
