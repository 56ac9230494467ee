"""The schema: numbered steps in ``migrations/``, each taken once, all that are missing in one transaction."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, NamedTuple

import asyncpg

from dibs.domain.errors import SchemaOutdated
from dibs.stores.common import steps as common
from dibs.stores.common.steps import Standing, Step, read_steps, standing
from dibs.stores.postgres.statements import statement

if TYPE_CHECKING:
    from dibs.stores.postgres.link import Connection

logger = logging.getLogger("dibs")

_KNOWN = statement("migration_known")
_LIST = statement("migration_list")
_LOCK = statement("migration_lock")
_PATIENCE = statement("migration_patience")
_CREATE = statement("migration_create")
_RECORD = statement("migration_record")
_LONGEST = 24 * 3600.0  # seconds: a step over a large table takes what it takes
_IN_THE_WAY = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)


class Checked(NamedTuple):
    """A schema that can be used."""

    schema: str
    ahead: str
    """What to say if it has seen more steps than we know."""


def steps() -> list[Step]:
    """Read the migrations that this version of dibs knows, in order."""
    return read_steps(__package__)


async def look(connection: Connection, name: str) -> tuple[Standing, str]:
    """See how far this schema has come, and what it is called; refuse one that was changed beyond what we know."""
    [(known, schema)] = await connection.fetch(_KNOWN)
    if schema is None:
        raise SchemaOutdated(
            f"{name}: the search path names no schema that there is",
            hint="Create the schema, or set search_path to one that there is.",
        )
    taken = [(version, step) for version, step in await connection.fetch(_LIST)] if known else []
    return standing(taken, steps(), name), schema


async def check(connection: Connection, name: str) -> Checked:
    """Refuse a schema that is not up to date."""
    (todo, ahead), schema = await look(connection, name)
    if todo:
        raise SchemaOutdated(f"{name} needs {len(todo)} migration(s), from {todo[0].name} on")
    return Checked(schema, ahead)


async def migrate(connection: Connection, name: str) -> list[str]:
    """Take the missing steps, as soon as no one is in the way.

    Race: someone's transaction is open, and a step waits for a table that it has used. All who come after would wait
    behind the step, for as long as that takes. So it gives up its place again and again
    (test_a_migration_that_waits_holds_no_one_up).
    """
    end = time.monotonic() + common.PATIENCE_SECONDS
    while True:
        try:
            return await _migrate(connection, name)
        except _IN_THE_WAY as error:
            if time.monotonic() >= end:
                raise
            logger.warning("%s: the migration waits for another's open transaction: %s", name, error)
        await asyncio.sleep(common.PAUSE_SECONDS)


async def _migrate(connection: Connection, name: str) -> list[str]:
    """Take all or none. Race: two processes at once; the second waits, and finds nothing left to do."""
    async with connection.transaction():
        await connection.execute(_LOCK, timeout=_LONGEST)
        await connection.fetch(_PATIENCE, f"{common.LOCK_SECONDS}s")
        (todo, _), _ = await look(connection, name)
        if todo:
            await connection.execute(_CREATE)
        for step in todo:
            await connection.execute(step.text, timeout=_LONGEST)
            await connection.fetch(_RECORD, step.version, step.name)
    return [step.name for step in todo]
