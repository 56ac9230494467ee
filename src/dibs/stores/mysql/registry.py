"""The registry: named documents, compared and set under a lock of their row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.domain.job import Document
from dibs.store import PAUSED
from dibs.stores.mysql import rows
from dibs.stores.mysql.literals import Rows, step
from dibs.stores.mysql.statements import statement

if TYPE_CHECKING:
    from dibs.stores.mysql.turn import Turn

_READ = statement("document_read")
_PAGE = statement("document_page")
_LOCK = statement("document_lock")
_ADD = statement("document_add")
_WRITE = statement("document_write")
_REMOVE = statement("document_remove")
_NOW = statement("clock_read")

_AFTER_ALL = "\U0010ffff"  # greater, by bytes, than any other character


async def read(turn: Turn, name: str) -> Document | None:
    """Read one document."""
    for row in await turn.fetch(_READ, turn.told, name.encode()):
        return rows.document(row)
    return None


async def documents(turn: Turn, prefix: str) -> list[Document]:
    """Read the documents whose name begins so, by name."""
    found = await turn.fetch(_PAGE, turn.told, prefix.encode(), (prefix + _AFTER_ALL).encode())
    return [rows.document(row) for row in found]


async def put(turn: Turn, name: str, value: bytes | None, expect: int | None, keep_us: int | None) -> Document | None:
    """Write or remove a document if it is at the expected version."""
    async with turn.transaction():
        found, [(now,)] = await turn.run(step(_LOCK, name.encode()), step(_NOW, turn.told))
        version = 0
        for known, expires in found:
            version = known if expires is None or expires > now else 0
        if expect is not None and expect != version:
            return None
        if value is None:
            document = Document(name, 0, b"", now)
            await turn.commit(step(_REMOVE, name.encode()), now=now)
        else:
            document = Document(name, version + 1, value, now, None if keep_us is None else now + keep_us)
            columns = (document.version, value, now, document.expires_us, name.encode())
            await turn.commit(step(_WRITE, *columns) if found else step(_ADD, Rows([columns])), now=now)
    turn.resumed = value is None and name.startswith(PAUSED)
    return document
