"""What SQLite complains about, in dibs's words: once, here."""

from __future__ import annotations

import apsw

from dibs.domain.errors import StoreUnavailable

_HINTS: list[tuple[type[apsw.Error], str, str]] = [
    (
        apsw.BusyError,
        "is locked by another connection",
        "Some transaction on this file has been open for too long: look for one that waits for something else.",
    ),
    (apsw.LockedError, "is locked by another connection", "End the transaction that holds it, then try again."),
    (apsw.FullError, "cannot grow: the disk is full", "Free some space; dibs goes on by itself then."),
    (
        apsw.CantOpenError,
        "cannot be opened",
        "Check that its folder exists and that this user may write to it.",
    ),
    (apsw.ReadOnlyError, "is read-only", "Let this user write to the file and to its folder."),
    (apsw.PermissionsError, "may not be accessed", "Let this user read and write the file and its folder."),
    (apsw.NotADBError, "is not an SQLite database", "Name another file."),
    (
        apsw.CorruptError,
        "is damaged",
        "Stop all who use it and restore it from a copy, or try `.recover` in the sqlite3 shell.",
    ),
    (apsw.IOError, "cannot be read or written", "Check the disk, its free space and its limits."),
]


def translate(error: apsw.Error, path: str) -> StoreUnavailable:
    """Say what happened to the file, and what to do about it."""
    for kind, what, hint in _HINTS:
        if isinstance(error, kind):
            return StoreUnavailable(f"{path} {what}: {error}", hint=hint)
    return StoreUnavailable(f"{path}: {type(error).__name__}: {error}")
