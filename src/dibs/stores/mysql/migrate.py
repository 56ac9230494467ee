"""The schema: numbered steps in ``migrations/``, each statement safe to repeat, as DDL commits by itself."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from dibs.domain.errors import SchemaOutdated, StoreUnavailable
from dibs.stores.common import steps as common
from dibs.stores.common.steps import Standing, Step, read_steps, standing
from dibs.stores.mysql.errors import DEADLOCK, FAILURES, LOCK_WAIT, code
from dibs.stores.mysql.literals import Rows
from dibs.stores.mysql.statements import statement, without_comments

if TYPE_CHECKING:
    from dibs.stores.mysql.turn import Turn

logger = logging.getLogger("dibs")

_KNOWN = statement("migration_known")
_LIST = statement("migration_list")
_LOCK = statement("migration_lock")
_UNLOCK = statement("migration_unlock")
_CREATE = statement("migration_create")
_RECORD = statement("migration_record")

_PATIENCE = 50  # seconds that one waits for another's migration
_LOCKS = "SET SESSION lock_wait_timeout = %s"
_IN_THE_WAY = (LOCK_WAIT, DEADLOCK)


def steps() -> list[Step]:
    """Read the migrations that this version of dibs knows, in order."""
    return read_steps(__package__)


def statements(step: Step) -> list[str]:
    """Take a step apart."""
    return [part for part in without_comments(step.text + "\n").split(";\n") if part.strip("; \n")]


async def look(turn: Turn, name: str) -> Standing:
    """See how far this database has come; refuse one that a newer dibs has changed beyond what we know."""
    [(known, _)] = await turn.fetch(_KNOWN)
    taken = [(version, step) for version, step in await turn.fetch(_LIST)] if known else []
    return standing(taken, steps(), name)


async def check(turn: Turn, name: str) -> str:
    """Refuse a schema that is not up to date; return what to say if it has seen more steps than we know."""
    todo, ahead = await look(turn, name)
    if todo:
        raise SchemaOutdated(f"{name} needs {len(todo)} migration(s), from {todo[0].name} on")
    return ahead


async def migrate(turn: Turn, name: str) -> list[str]:
    """Take the missing steps. Race: two processes at once; the second waits, and finds nothing left to do."""
    [(locked,)] = await turn.fetch(_LOCK, _PATIENCE)
    if locked != 1:
        raise StoreUnavailable(f"{name}: another migration is under way, and did not end in {_PATIENCE} s")
    await turn.fetch(_LOCKS, common.LOCK_SECONDS)
    todo = (await look(turn, name)).missing
    if todo:
        await turn.fetch(_CREATE)
    for step in todo:
        for sql in statements(step):
            await _take(turn, sql, name)
        await turn.fetch(_RECORD, Rows([(step.version, step.name)]))
    await turn.fetch(_UNLOCK)
    return [step.name for step in todo]


async def _take(turn: Turn, sql: str, name: str) -> None:
    """Run a statement of a step, as soon as no one is in the way.

    Race: someone's transaction is open, and the statement waits for a table that it has used. All who come after would
    wait behind it, for as long as that takes. So it gives up its place again and again
    (test_a_migration_that_waits_holds_no_one_up).
    """
    end = time.monotonic() + common.PATIENCE_SECONDS
    while True:
        try:
            await turn.fetch(sql)
        except FAILURES as error:
            if code(error) not in _IN_THE_WAY or time.monotonic() >= end:
                raise
            logger.warning("%s: the migration waits for another's open transaction: %s", name, error)
        else:
            return
        await asyncio.sleep(common.PAUSE_SECONDS)
