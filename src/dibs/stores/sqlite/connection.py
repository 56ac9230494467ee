"""A connection: how it is set up, how long it waits for a lock, how it is got back, how the WAL stays small."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from dibs.domain.errors import StoreUnavailable
from dibs.stores.sqlite.errors import translate

if TYPE_CHECKING:
    from random import Random

OLDEST = (3, 51, 3)
"""Before this, a checkpoint and a writer on two connections could damage the file."""

LOCK_SECONDS = 30.0
"""How long a transaction waits for its turn."""

_STEP_SECONDS = 0.0015  # the longest pause between two tries, and so about what a free lock may go unnoticed
_PAGE = 4096
_MOVE_PAGES = 4 * 1024 * 1024 // _PAGE  # WAL pages from which they are moved into the file, without waiting for anyone
_RESTART_PAGES = 16 * 1024 * 1024 // _PAGE  # … and from which writers and readers are held up a moment to begin it anew
_RETRY_PAGES = _MOVE_PAGES // 4  # by how much it must have grown before that is tried again
_RESTART_SECONDS = 0.1
_CACHE_KIB = 16 * 1024
_LOOK_AGAIN = 64  # how often a watcher asks before it makes sure that the file is still the same

# What the connection itself may be to blame for: it is given up, and the next transaction gets a new one.
_BROKEN = (
    apsw.CantOpenError,
    apsw.CorruptError,
    apsw.FullError,
    apsw.IOError,
    apsw.NotADBError,
    apsw.PermissionsError,
    apsw.ReadOnlyError,
)


def check_library() -> None:
    """Refuse an SQLite that can damage what it keeps."""
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < OLDEST:
        raise StoreUnavailable(
            f"SQLite {apsw.sqlite_lib_version()} can damage a file that several connections write to",
            hint="Install apsw 3.51.3 or newer.",
        )


class Patience:
    """A busy handler: short pauses of random length, so that those who wait do not wake in step; then an end."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._end = 0.0

    def allow(self, seconds: float) -> None:
        """Begin to count."""
        self._end = time.monotonic() + seconds

    def __call__(self, _tries: int) -> bool:
        """Wait a little, or say that it is enough."""
        if time.monotonic() >= self._end:
            return False
        time.sleep(self._random.uniform(_STEP_SECONDS / 10, _STEP_SECONDS))
        return True


class Link:
    """One connection, opened when it is needed and again when it was lost; ``lock`` is held by whoever uses it."""

    def __init__(self, path: str, random: Random, *, writes: bool) -> None:
        self.path = path
        self.lock = threading.Lock()
        self.opened = 0  # how many times it had to be
        self._writes = writes
        self._patience = Patience(random)
        self._connection: apsw.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._tried_at = 0
        self._asked = 0

    def connection(self) -> apsw.Connection:
        """Give the connection, ready for one transaction."""
        self._patience.allow(LOCK_SECONDS)
        # Race: the file was removed or replaced under us. What the old one takes would be acknowledged and lost.
        if self._connection is not None and self._file != _identity(self.path):
            self.drop()
        if self._connection is None:
            self._open()
        assert self._connection is not None  # noqa: S101  # for the type checker
        return self._connection

    def version(self) -> tuple[int, int]:
        """Give a mark that changes with every commit by another connection. Asked for hundreds of times a second."""
        self._asked += 1
        connection = self._connection
        if connection is None or self._asked % _LOOK_AGAIN == 0:
            connection = self.connection()
        [(version,)] = connection.execute("PRAGMA data_version")
        return self.opened, version

    def _open(self) -> None:
        try:
            flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if self._writes else 0)
            self._connection = connection = apsw.Connection(self.path, flags, statementcachesize=200)
            connection.set_busy_handler(self._patience)
            # Plans that do not depend on what is bound: else SQLite plans some statements anew at every execution.
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            if self._writes:
                self._use_wal(connection)
                connection.pragma("synchronous", "FULL")
                connection.pragma("journal_size_limit", _RESTART_PAGES * _PAGE)
                connection.wal_autocheckpoint(0)  # see checkpoint
            else:
                connection.pragma("query_only", "ON")
            connection.pragma("cache_size", -_CACHE_KIB)
            connection.pragma("temp_store", "MEMORY")
        except apsw.Error as error:
            self.drop()
            raise self.failure(error) from error
        self._file = _identity(self.path)
        self.opened += 1

    def _use_wal(self, connection: apsw.Connection) -> None:
        """Race: two processes make one new file. A change of mode fails at once where others would wait, so we wait."""
        while True:
            try:
                if connection.pragma("journal_mode", "WAL") != "wal":
                    raise StoreUnavailable(
                        f"{self.path} cannot be used with a write-ahead log", hint="Keep the file on a local disk."
                    )
            except (apsw.BusyError, apsw.LockedError):
                if not self._patience(0):
                    raise
            else:
                return

    def drop(self) -> None:
        """Let go of the connection; an open transaction is rolled back."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(apsw.Error):
                connection.close(True)  # noqa: FBT003  # force: whatever goes wrong while closing, it is gone

    def failure(self, error: apsw.Error) -> StoreUnavailable:
        """Translate an error, and give the connection up if it may be the cause."""
        if isinstance(error, _BROKEN):
            self.drop()
        folder = Path(self.path).parent
        if isinstance(error, apsw.CantOpenError) and not folder.is_dir():
            return StoreUnavailable(f"{self.path} cannot be opened: {folder} is no folder", hint="Make it first.")
        return translate(error, self.path)

    def checkpoint(self) -> None:
        """Keep the WAL small, after a commit.

        Pages are moved in passing; that alone never ends while others go on writing, so from twice the size on it holds
        them up, for a moment at most, to begin the WAL anew.
        """
        if self._connection is None or not self._writes:
            return
        # Busy: a reader is in the way. An error of the disk will be met, and told, by the next transaction.
        with suppress(apsw.Error):
            # A look at shared memory. SQLite would tell us at each commit, but there it costs all who wait for that.
            pages, _ = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
            if pages < self._tried_at:
                self._tried_at = 0  # it has begun anew
            if pages < max(_MOVE_PAGES, self._tried_at + _RETRY_PAGES):
                return
            self._tried_at = pages
            self._patience.allow(_RESTART_SECONDS)
            restart = pages >= _RESTART_PAGES
            self._connection.wal_checkpoint(
                mode=apsw.SQLITE_CHECKPOINT_RESTART if restart else apsw.SQLITE_CHECKPOINT_PASSIVE
            )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116  # at every transaction, and a third of the price
    except OSError:
        return None
    return found.st_dev, found.st_ino
