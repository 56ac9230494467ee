"""The schema: numbered steps in ``migrations/``, each taken once, all that are missing in one transaction."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from dibs.domain.errors import SchemaOutdated
from dibs.stores.sqlite.statements import statement

if TYPE_CHECKING:
    import apsw

# Not PRAGMA user_version: the file may be the user's own, and the number theirs.
_CREATE = statement("migration_create")
_LAST = statement("migration_last")
_RECORD = statement("migration_record")
_KNOWN = statement("migration_known")


class Step(NamedTuple):
    """One migration."""

    version: int
    name: str
    text: str


def steps() -> list[Step]:
    """Read the migrations that this version of dibs knows, in order."""
    folder = files(__package__).joinpath("migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [Step(int(name[:4]), name, folder.joinpath(name).read_text("utf-8")) for name in names]


def missing(connection: apsw.Connection, path: str) -> list[Step]:
    """List the steps that this file has not seen; refuse one that has seen more than we know."""
    last = 0
    if connection.execute(_KNOWN).fetchone():
        last = connection.execute(_LAST).fetchone()[0]  # type: ignore[index]  # an aggregate always has a row
    known = steps()
    if last > known[-1].version:
        raise SchemaOutdated(
            f"{path} has schema {last}, this version of dibs knows {known[-1].version}",
            hint="A newer dibs has used this file: upgrade dibs here too.",
        )
    return [step for step in known if step.version > last]


def migrate(connection: apsw.Connection, path: str, now: int) -> list[str]:
    """Take the missing steps. Race: two processes open a new file; the second waits, and finds nothing left to do."""
    if not missing(connection, path):
        return []
    connection.execute("BEGIN IMMEDIATE")
    try:
        todo = missing(connection, path)
        connection.execute(_CREATE)
        for step in todo:
            connection.execute(step.text)
            connection.execute(_RECORD, (step.version, step.name, now))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return [step.name for step in todo]
