"""The schema: numbered steps in ``migrations/``, each taken once, all that are missing in one transaction."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from dibs.stores.common.steps import Standing, Step, read_steps, standing
from dibs.stores.sqlite.statements import statement

if TYPE_CHECKING:
    import apsw

logger = logging.getLogger("dibs")

# Not PRAGMA user_version: the file may be the user's own, and the number theirs.
_CREATE = statement("migration_create")
_LIST = statement("migration_list")
_RECORD = statement("migration_record")
_KNOWN = statement("migration_known")


def steps() -> list[Step]:
    """Read the migrations that this version of dibs knows, in order."""
    return read_steps(__package__)


def look(connection: apsw.Connection, path: str) -> Standing:
    """See how far this file has come; refuse one that a newer dibs has changed beyond what we know."""
    taken: list[Any] = []
    if connection.execute(_KNOWN).fetchone():
        taken = connection.execute(_LIST).fetchall()
    return standing(taken, steps(), path)


def migrate(connection: apsw.Connection, path: str, now: int) -> list[str]:
    """Take the missing steps. Race: two processes open a new file; the second waits, and finds nothing left to do."""
    found = look(connection, path)
    if found.ahead:
        logger.info("%s: nothing in it is in the way", found.ahead)
    if not found.missing:
        return []
    connection.execute("BEGIN IMMEDIATE")
    try:
        todo = look(connection, path).missing
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
