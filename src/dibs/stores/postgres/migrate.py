"""The schema: numbered steps in ``migrations/``, each taken once, all that are missing in one transaction."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from dibs.domain.errors import SchemaOutdated
from dibs.stores.postgres.statements import statement

if TYPE_CHECKING:
    from dibs.stores.postgres.link import Connection

_KNOWN = statement("migration_known")
_LAST = statement("migration_last")
_LOCK = statement("migration_lock")
_CREATE = statement("migration_create")
_RECORD = statement("migration_record")
_LONGEST = 24 * 3600.0  # seconds: a step over a large table takes what it takes


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


async def missing(connection: Connection, name: str) -> tuple[list[Step], str]:
    """List the steps that this schema has not seen, and its name; refuse one that has seen more than we know."""
    [(known, schema)] = await connection.fetch(_KNOWN)
    if schema is None:
        raise SchemaOutdated(
            f"{name}: the search path names no schema that there is",
            hint="Create the schema, or set search_path to one that there is.",
        )
    last = (await connection.fetch(_LAST))[0][0] if known else 0
    ours = steps()
    if last > ours[-1].version:
        raise SchemaOutdated(
            f"{name} has schema {last}, this version of dibs knows {ours[-1].version}",
            hint="A newer dibs has migrated this database: upgrade dibs here too.",
        )
    return [step for step in ours if step.version > last], schema


async def check(connection: Connection, name: str) -> str:
    """Refuse a schema that is not up to date; return its name."""
    todo, schema = await missing(connection, name)
    if todo:
        raise SchemaOutdated(f"{name} needs {len(todo)} migration(s), from {todo[0].name} on")
    return schema


async def migrate(connection: Connection, name: str) -> list[str]:
    """Take the missing steps. Race: two processes at once; the second waits, and finds nothing left to do."""
    async with connection.transaction():
        await connection.execute(_LOCK, timeout=_LONGEST)
        todo, _ = await missing(connection, name)
        if todo:
            await connection.execute(_CREATE)
        for step in todo:
            await connection.execute(step.text, timeout=_LONGEST)
            await connection.fetch(_RECORD, step.version, step.name)
    return [step.name for step in todo]
