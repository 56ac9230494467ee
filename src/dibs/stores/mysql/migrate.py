"""The schema: numbered steps in ``migrations/``, each statement safe to repeat, as DDL commits by itself."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from dibs.domain.errors import SchemaOutdated, StoreUnavailable
from dibs.stores.mysql.literals import Rows
from dibs.stores.mysql.statements import statement, without_comments

if TYPE_CHECKING:
    from dibs.stores.mysql.turn import Turn

_KNOWN = statement("migration_known")
_LAST = statement("migration_last")
_LOCK = statement("migration_lock")
_UNLOCK = statement("migration_unlock")
_CREATE = statement("migration_create")
_RECORD = statement("migration_record")

_PATIENCE = 50  # seconds that one waits for another's migration


class Step(NamedTuple):
    """One migration."""

    version: int
    name: str
    statements: list[str]


def steps() -> list[Step]:
    """Read the migrations that this version of dibs knows, in order."""
    folder = files(__package__).joinpath("migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [Step(int(name[:4]), name, _split(folder.joinpath(name).read_text("utf-8"))) for name in names]


def _split(text: str) -> list[str]:
    return [part for part in without_comments(text + "\n").split(";\n") if part.strip("; \n")]


async def missing(turn: Turn, name: str) -> list[Step]:
    """List the steps that this database has not seen; refuse one that has seen more than we know."""
    [(known, _)] = await turn.fetch(_KNOWN)
    last = (await turn.fetch(_LAST))[0][0] if known else 0
    ours = steps()
    if last > ours[-1].version:
        raise SchemaOutdated(
            f"{name} has schema {last}, this version of dibs knows {ours[-1].version}",
            hint="A newer dibs has migrated this database: upgrade dibs here too.",
        )
    return [step for step in ours if step.version > last]


async def check(turn: Turn, name: str) -> None:
    """Refuse a schema that is not up to date."""
    todo = await missing(turn, name)
    if todo:
        raise SchemaOutdated(f"{name} needs {len(todo)} migration(s), from {todo[0].name} on")


async def migrate(turn: Turn, name: str) -> list[str]:
    """Take the missing steps. Race: two processes at once; the second waits, and finds nothing left to do."""
    [(locked,)] = await turn.fetch(_LOCK, _PATIENCE)
    if locked != 1:
        raise StoreUnavailable(f"{name}: another migration is under way, and did not end in {_PATIENCE} s")
    todo = await missing(turn, name)
    if todo:
        await turn.fetch(_CREATE)
    for step in todo:
        for sql in step.statements:
            await turn.fetch(sql)
        await turn.fetch(_RECORD, Rows([(step.version, step.name)]))
    await turn.fetch(_UNLOCK)
    return [step.name for step in todo]
