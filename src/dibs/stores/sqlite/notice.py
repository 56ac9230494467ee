"""Hearing from the kernel that a file was written to, where it tells (Linux); elsewhere one has to go on looking.

The file is named, never opened: closing it would let go of the locks that SQLite holds on it in this process.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys
from contextlib import suppress

_MODIFY = 0x2  # IN_MODIFY
_FLAGS = 0o2004000  # IN_NONBLOCK | IN_CLOEXEC
_MANY = 65536


class Notice:
    """Tells when a file is written to, by whichever process."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._events: int = self._libc.inotify_init1(_FLAGS)
        if self._events < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._woken, self._wake = os.pipe()
        self._poll = select.poll()
        self._poll.register(self._events, select.POLLIN)
        self._poll.register(self._woken, select.POLLIN)

    @classmethod
    def make(cls) -> Notice | None:
        """Make one, or none where the kernel does not tell, or has told too many already."""
        if sys.platform != "linux":
            return None
        with suppress(OSError, AttributeError):
            return cls()
        return None

    def watch(self, path: str) -> bool:
        """Watch the file that has this name now; say whether that can be done. Twice does no harm."""
        return bool(self._libc.inotify_add_watch(self._events, os.fsencode(path), _MODIFY) >= 0)

    def wait(self, seconds: float) -> bool:
        """Wait until the file is written to, or so long, or for ``wake``; say whether it was written to."""
        return self._events in {fd for fd, _ in self._poll.poll(seconds * 1000)} and self._clear()

    def _clear(self) -> bool:
        with suppress(BlockingIOError):
            os.read(self._events, _MANY)
        return True

    def wake(self) -> None:
        """End a wait, and all that follow, from another thread."""
        os.write(self._wake, b"x")

    def close(self) -> None:
        """Let go of it."""
        for fd in (self._events, self._woken, self._wake):
            os.close(fd)
