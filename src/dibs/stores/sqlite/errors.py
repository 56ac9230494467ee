"""What SQLite complains about, in dibs's words: once, here."""

from __future__ import annotations

import re

import apsw

from dibs.domain.errors import StoreUnavailable
from dibs.stores.common.steps import not_ours

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
# SQLite has no number for it, and our statements are fixed: what they name was there when they were written.
_NOT_THERE = re.compile(r"no such (table|column|index)|has no column named|has \d+ columns but")


def translate(error: apsw.Error, path: str) -> StoreUnavailable:
    """Say what happened to the file, and what to do about it."""
    if isinstance(error, apsw.SQLError) and _NOT_THERE.search(str(error)):
        return not_ours(path, error)
    for kind, what, hint in _HINTS:
        if isinstance(error, kind):
            return StoreUnavailable(f"{path} {what}: {error}", hint=hint)
    return StoreUnavailable(f"{path}: {type(error).__name__}: {error}")
