"""The steps that make a schema: which of them a database has not seen, and whether one that has seen more is of use.

A step is called ``0003_lease_token.sql``, and ``0003_lease_token.breaking.sql`` if whoever does not know it must not go
on. A database remembers steps by name, so the name is what a dibs that is older than the step can be told by.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from dibs.domain.errors import SchemaOutdated

if TYPE_CHECKING:
    from collections.abc import Sequence

LOCK_SECONDS = 1
"""How long a step waits for a lock at a time. Whoever comes after it waits behind it."""
PAUSE_SECONDS = 2.0
"""How long others have the tables to themselves until it is tried again."""
PATIENCE_SECONDS = 300.0
"""How long it is tried."""

_HARMLESS = re.compile(r"\d{4}_\w+\.sql", re.ASCII)  # whatever else a later dibs may come to write is taken for a no


class Step(NamedTuple):
    """One migration."""

    version: int
    name: str
    text: str

    @property
    def breaking(self) -> bool:
        """Whether a dibs that does not know it must not use a database that has seen it."""
        return is_breaking(self.name)


class Standing(NamedTuple):
    """How far a database has come, as this version of dibs sees it."""

    missing: list[Step]
    ahead: str = ""
    """What to say if it has seen more steps than we know, none of them breaking."""


def is_breaking(name: str) -> bool:
    """Say whether a step is in the way of whoever does not know it."""
    return _HARMLESS.fullmatch(name) is None


def read_steps(package: str) -> list[Step]:
    """Read the migrations of a store that this version of dibs knows, in order."""
    folder = files(package).joinpath("migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [Step(int(name[:4]), name, folder.joinpath(name).read_text("utf-8")) for name in names]


def standing(taken: Sequence[tuple[int, str]], ours: Sequence[Step], name: str) -> Standing:
    """Compare the steps that a database has taken with ours; refuse it if a later one is breaking."""
    last, known = max((version for version, _ in taken), default=0), ours[-1].version
    if last <= known:
        return Standing([step for step in ours if step.version > last])
    what = f"{name} has schema {last}, this version of dibs knows {known}"
    if any(is_breaking(step) for version, step in taken if version > known):
        raise SchemaOutdated(what, hint="A newer dibs has migrated it beyond older ones: upgrade dibs here too.")
    return Standing([], what)


def not_ours(name: str, said: object) -> SchemaOutdated:
    """Say that a statement did not find what it needs: never migrated, or under a running process by a newer dibs."""
    return SchemaOutdated(
        f"{name} has not the tables that this version of dibs needs: {said}",
        hint="Run `dibs migrate`; if a newer dibs has migrated it, upgrade dibs here too.",
    )
