"""The registry: named documents, compared and set under a lock of their name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.domain.job import Document
from dibs.store import PAUSED
from dibs.stores.common import rows
from dibs.stores.postgres.statements import statement

if TYPE_CHECKING:
    from dibs.stores.postgres.turn import Turn

_READ = statement("document_read")
_PAGE = statement("document_page")
_LOCK = statement("document_lock")
_WRITE = statement("document_write")
_PUT = statement("document_put")
_REMOVE = statement("document_remove")
_NOW = statement("clock_read")
_CLOCK = statement("write_clock")

_AFTER_ALL = "\U0010ffff"  # greater, by bytes, than any other character


async def read(turn: Turn, name: str) -> Document | None:
    """Read one document."""
    for row in await turn.fetch(_READ, turn.told, name):
        return rows.document(row)
    return None


async def documents(turn: Turn, prefix: str) -> list[Document]:
    """Read the documents whose name begins so, by name."""
    return [rows.document(row) for row in await turn.fetch(_PAGE, turn.told, prefix, prefix + _AFTER_ALL)]


async def put(turn: Turn, name: str, value: bytes | None, expect: int | None, keep_us: int | None) -> Document | None:
    """Write or remove a document if it is at the expected version."""
    if expect is None and value is not None:
        [(version, now, expires, _)] = await turn.fetch(_PUT, turn.told, name, value, keep_us)
        return Document(name, version, value, now, expires)
    async with turn.transaction():
        await turn.fetch(_LOCK, name)
        found = await read(turn, name)
        version = 0 if found is None else found.version
        if expect is not None and expect != version:
            return None
        [(now,)] = await turn.fetch(_NOW, turn.told)
        if value is None:
            document = Document(name, 0, b"", now)
            await turn.fetch(_REMOVE, name)
        else:
            expires = None if keep_us is None else now + keep_us
            document = Document(name, version + 1, value, now, expires)
            await turn.fetch(_WRITE, name, document.version, value, now, expires)
        await turn.fetch(_CLOCK, now)
    turn.resumed = value is None and name.startswith(PAUSED)
    return document
