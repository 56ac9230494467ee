"""Windows of a minute, each beginning with the first request in it: those of this process, or of all of a server's."""

from __future__ import annotations

import fcntl
import os
from mmap import mmap
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, Protocol
from zlib import crc32

if TYPE_CHECKING:
    from pathlib import Path

WINDOW = 60.0
"""Seconds."""

_SLOT = Struct("=32sdQ")  # the key's id, when its window began, how many requests were in it
_SLOTS = 8
"""Keys that share a part of the table, and its lock."""
_PART = _SLOT.size * _SLOTS
_PARTS = 2048


class Window(NamedTuple):
    """The minute that a request falls into. ``refused``: it was full, and the request is not counted."""

    began: float
    used: int
    refused: bool


class Windows(Protocol):
    """Counts requests."""

    def count(self, id: str, rate: int, now: float) -> Window:
        """Count a request of a key that may send so many a minute."""
        ...


def after(began: float, count: int, rate: int, now: float) -> Window:
    """Say what a request makes of a window. It may have begun a moment after now, if two processes meet."""
    if abs(now - began) >= WINDOW:
        began, count = now, 0
    return Window(began, count, refused=True) if count >= rate else Window(began, count + 1, refused=False)


class OwnWindows:
    """The windows of one process."""

    def __init__(self) -> None:
        self._windows: dict[str, Window] = {}

    def count(self, id: str, rate: int, now: float) -> Window:
        began, count, _ = self._windows.get(id, (now, 0, False))
        window = self._windows[id] = after(began, count, rate, now)
        return window


class SharedWindows:
    """The windows of all processes of a server: a table in a file that each of them maps.

    Race: two processes count at once. They lock the part that the key is in
    (test_processes_that_count_at_once_miss_nothing).
    The kernel frees such a lock when its holder is killed, as no semaphore would be
    (test_a_process_that_dies_with_the_lock_leaves_it_to_others).
    """

    def __init__(self, file: Path) -> None:
        # Never closed: with any of its descriptors a process would lose the locks that it has on the file.
        self._file = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(self._file, _PART * _PARTS)
        self._table = mmap(self._file, _PART * _PARTS)

    def count(self, id: str, rate: int, now: float) -> Window:
        name = id.encode()
        start = crc32(name) % _PARTS * _PART
        fcntl.lockf(self._file, fcntl.LOCK_EX, _PART, start)
        try:
            place, began, count = self._find(start, name, now)
            window = after(began, count, rate, now)
            self._table[place : place + _SLOT.size] = _SLOT.pack(name, window.began, window.used)
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, _PART, start)
        return window

    def _find(self, start: int, name: bytes, now: float) -> tuple[int, float, int]:
        """Find the key's place, or the one whose window began first: most likely it is over.

        If eight other keys of the part are in use, one of them begins a new minute before its time.
        """
        oldest, oldest_at = start, now
        for place in range(start, start + _PART, _SLOT.size):
            kept, began, count = _SLOT.unpack_from(self._table, place)
            if kept.rstrip(b"\0") == name:
                return place, began, count
            if began < oldest_at:
                oldest, oldest_at = place, began
        return oldest, now, 0
