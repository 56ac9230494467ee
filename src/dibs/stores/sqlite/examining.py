"""Examine: what may be wrong with a file, its folder, its disk or the library, with its fix. It changes nothing."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from dibs.domain.errors import DibsError, SchemaOutdated
from dibs.domain.finding import Finding, failure, ok, orphans, warning
from dibs.domain.retry import SECOND
from dibs.stores.common.examining import schema
from dibs.stores.sqlite import migrate
from dibs.stores.sqlite.connection import check_library
from dibs.stores.sqlite.errors import translate
from dibs.stores.sqlite.statements import statement

if TYPE_CHECKING:
    from dibs.clock import Clock

_ORPHAN = statement("examine_orphan")
_CLOCK = statement("clock_read")

MIB = 2**20
LEAST_FREE = 100 * MIB
LITTLE_FREE = 1024 * MIB
LARGE_WAL = 64 * MIB
AHEAD_SECONDS = 1.0
LATE_SECONDS = 60.0
OLD_SECONDS = 3600.0
LOCK_MS = 2000
MOUNTS = Path("/proc/self/mounts")
ELSEWHERE = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "glusterfs", "lustre", "9p", "vboxsf"})
"""File systems that other machines may share: their locks, or their shared memory, are not what SQLite needs."""


def examine(path: str, clock: Clock) -> list[Finding]:
    """Look at everything, as far as one can get."""
    file = Path(path)
    found = [_library(), *_place(file)]
    if not file.exists():
        what, fix = f"there is no file {file}", "`dibs migrate` makes it, and so does whoever uses it first."
        return [failure("reachable", what, fix), *found]
    if not os.access(file, os.R_OK):
        return [failure("reachable", f"{file} cannot be read by this user", f"chown or chmod {file}."), *found]
    try:
        with closing(_open(path)) as connection:
            return [ok("reachable", path), *found, *_inside(connection, file, clock)]
    except apsw.Error as error:
        told = translate(error, path)
        return [failure("reachable", told.message, told.hint), *found]


def _open(path: str) -> apsw.Connection:
    connection = apsw.Connection(
        path, apsw.SQLITE_OPEN_READWRITE if os.access(path, os.W_OK) else apsw.SQLITE_OPEN_READONLY
    )
    connection.set_busy_timeout(LOCK_MS)
    return connection


def _library() -> Finding:
    try:
        check_library()
    except DibsError as error:
        return failure("version", error.message, error.hint)
    return ok("version", f"SQLite {apsw.sqlite_lib_version()}")


# Around the file


def _place(file: Path) -> list[Finding]:
    folder = file.parent
    if not folder.is_dir():
        return [failure("permissions", f"{folder} is no folder", f"mkdir -p {folder}")]
    return [_permissions(file, folder), _file_system(folder), _space(folder)]


def _permissions(file: Path, folder: Path) -> Finding:
    companions = [Path(f"{file}{end}") for end in ("", "-wal", "-shm")]
    closed = [str(each) for each in companions if each.exists() and not os.access(each, os.R_OK | os.W_OK)]
    if closed:
        return failure("permissions", f"this user may not write to {', '.join(closed)}", f"chown them to {_me()}.")
    if not os.access(folder, os.W_OK | os.X_OK):
        what = f"this user may not write to {folder}, where SQLite keeps the WAL beside the file"
        return failure("permissions", what, f"chown {folder} to {_me()}, or keep the file elsewhere.")
    return ok("permissions", "the file and its folder can be written to")


def _me() -> str:
    return f"user {os.getuid()}" if hasattr(os, "getuid") else "this user"


def _file_system(folder: Path) -> Finding:
    kind = kind_of(folder.resolve(), MOUNTS.read_text()) if MOUNTS.exists() else None
    if kind is not None and (kind in ELSEWHERE or kind.startswith("fuse.sshfs")):
        what = f"{folder} is on a network file system ({kind}), where a write-ahead log can be damaged"
        return failure("file_system", what, "Keep the file on a local disk; for several machines use PostgreSQL.")
    return ok("file_system", kind or "this system does not say what kind it is")


def kind_of(folder: Path, mounts: str) -> str | None:
    """Say of what kind the file system is that a folder lies on, by the system's table of mounts."""
    best: tuple[int, str] | None = None
    for line in mounts.splitlines():
        _, point, kind, *_ = line.split(" ")
        place = Path(point.encode().decode("unicode_escape"))  # spaces are written as octal numbers
        if folder == place or place in folder.parents:
            best = max(best or (0, ""), (len(place.parts), kind))
    return best[1] if best else None


def _space(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    what = f"{free // MIB} MiB are free in {folder}"
    if free < LEAST_FREE:
        return failure("space", what, "Free some: nothing can be written without.")
    if free < LITTLE_FREE:
        return warning("space", what, "Free some, before nothing can be written.")
    return ok("space", what)


# Inside it


def _inside(connection: apsw.Connection, file: Path, clock: Clock) -> list[Finding]:
    found = [_journal(connection), _wal(file), _lock(connection)]
    try:
        missing, ahead = migrate.look(connection, str(file))
    except SchemaOutdated as error:
        return [failure("schema", error.message, error.hint), *found]
    if missing:
        what = f"{len(missing)} migration(s) are missing, from {missing[0].name} on"
        return [
            warning("schema", what, "Nothing: they are taken when the file is opened, or by `dibs migrate`."),
            *found,
        ]
    found.insert(0, schema(ahead))
    return [*found, _time(connection, clock), *_orphans(connection, clock)]


def _journal(connection: apsw.Connection) -> Finding:
    [(mode,)] = connection.execute("PRAGMA journal_mode")
    if mode == "wal":
        return ok("journal", "write-ahead log, and every commit waits for the disk (synchronous FULL)")
    fix = "Nothing, unless someone switches it again and again: dibs switches it back when it opens the file."
    return warning("journal", f"the journal mode is {mode}: readers and writers wait for each other", fix)


def _wal(file: Path) -> Finding:
    wal = Path(f"{file}-wal")
    size = wal.stat().st_size if wal.exists() else 0
    if size > LARGE_WAL:
        what = f"the WAL has {size // MIB} MiB: some reader has kept its snapshot for long"
        return warning("wal", what, f"Find who has {file} open (lsof), and end the transaction that was forgotten.")
    return ok("wal", f"{size / MIB:.1f} MiB")


def _lock(connection: apsw.Connection) -> Finding:
    if connection.readonly("main"):
        return ok("lock", "not looked at: the file cannot be written to")
    try:
        connection.execute("BEGIN IMMEDIATE")
    except apsw.BusyError:
        what = f"another transaction has held the write lock for more than {LOCK_MS // 1000} s"
        return warning("lock", what, "End it: while it is open, no job can be enqueued, claimed or settled.")
    connection.execute("ROLLBACK")
    return ok("lock", "the file can be written to")


def _time(connection: apsw.Connection, clock: Clock) -> Finding:
    row = connection.execute(_CLOCK).fetchone()
    ahead = 0.0 if row is None else (row[0] - clock.now()) / SECOND
    if ahead > AHEAD_SECONDS:
        what = f"the file was last written to {ahead:.0f} s ahead of this machine's clock, which was set back"
        return warning("clock", what, "Wait, or set the clock right: until then leases and delays do not go on.")
    return ok("clock", "this machine's, and it has not been set back")


def _orphans(connection: apsw.Connection, clock: Clock) -> list[Finding]:
    bindings = (clock.now(), round(LATE_SECONDS * SECOND), round(OLD_SECONDS * SECOND))
    [(late, old)] = connection.execute(_ORPHAN, bindings)
    return orphans(int(str(late)), int(str(old)))
