"""The registry: named documents, compared and set under the write lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.domain.job import Document
from dibs.store import PAUSED
from dibs.stores.common.rows import document
from dibs.stores.sqlite.statements import statement

if TYPE_CHECKING:
    from dibs.stores.sqlite.moment import Moment

_READ = statement("document_read")
_PAGE = statement("document_page")
_WRITE = statement("document_write")
_REMOVE = statement("document_remove")

_AFTER_ALL = "\U0010ffff"  # greater, by bytes, than any other character


def read(moment: Moment, name: str) -> Document | None:
    """Read one document."""
    found = moment.execute(_READ, (name, moment.now)).fetchone()
    return None if found is None else document(found)


def documents(moment: Moment, prefix: str) -> list[Document]:
    """Read the documents whose name begins so, by name."""
    found = moment.rows(_PAGE, prefix, prefix + _AFTER_ALL, moment.now)
    return [document(row) for row in found]


def put(moment: Moment, name: str, value: bytes | None, expect: int | None, keep_us: int | None) -> Document | None:
    """Write or remove a document if it is at the expected version."""
    found = read(moment, name)
    version = 0 if found is None else found.version
    if expect is not None and expect != version:
        return None
    moment.touched = True
    if value is None:
        document = Document(name, 0, b"", moment.now)
        moment.execute(_REMOVE, (name,))
    else:
        expires = None if keep_us is None else moment.now + keep_us
        document = Document(name, version + 1, value, moment.now, expires)
        moment.execute(_WRITE, (name, document.version, value, document.updated_us, expires))
    if name.startswith(PAUSED):
        moment.forget_paused()
        moment.resumed = moment.resumed or value is None
    return document
