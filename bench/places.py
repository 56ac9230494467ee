"""Where the databases of a case are: in files of its own, or on a server of its own.

A case that is given a place asks for an empty database, and is told its URL; so it is the same on every store.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

from bench.contenders import Home
from bench.run import Run
from bench.subjects import url_of


class Place(Protocol):
    store: str

    def database(self, *, migrated: bool = False) -> AbstractAsyncContextManager[str]:
        """An empty database, gone afterwards: its URL. Without a schema, unless ``migrated``."""


class Files:
    """For SQLite, which migrates itself; and for memory, which needs none."""

    def __init__(self, run: Run, store: str) -> None:
        self._run, self.store = run, store

    @asynccontextmanager
    async def database(self, *, migrated: bool = False) -> AsyncIterator[str]:
        with self._run.fresh() as folder:
            yield url_of(self.store, folder)


def at(place: Place) -> Home:
    """The folder that a contender's program is given: it holds the URL of an empty database."""

    @asynccontextmanager
    async def home(run: Run) -> AsyncIterator[Path]:
        async with place.database() as url:
            with run.fresh() as folder:
                (folder / "url").write_text(url, encoding="utf-8")
                yield folder

    return home
