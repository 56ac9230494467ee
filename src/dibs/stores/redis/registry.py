"""The registry: named documents, compared and set by one script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.domain.job import Document
from dibs.store import PAUSED
from dibs.stores.redis import values
from dibs.stores.redis.reading import MOST_BYTES
from dibs.stores.redis.scripts import script

if TYPE_CHECKING:
    from dibs.stores.redis.part import Part

_PUT = script("document_put")
_PAGE = script("document_page")

_STEP = 500  # documents read by one script


async def read(site: Part, name: str) -> Document | None:
    """Read one document."""
    key = name.encode()
    _, *found = await site.run(_PAGE, site.told, b"[" + key, b"[" + key, 1, MOST_BYTES)
    return values.document(*found) if found else None


async def documents(site: Part, prefix: str) -> list[Document]:
    """Read the documents whose name begins so, by name."""
    low = b"[" + prefix.encode() if prefix else b"-"
    high = b"(" + prefix.encode() + b"\xff" if prefix else b"+"  # no text has such a byte
    documents: list[Document] = []
    while True:
        last, *found = await site.run(_PAGE, site.told, low, high, _STEP, MOST_BYTES)
        documents += map(values.document, found[::2], found[1::2])
        if not last:
            return documents
        low = b"(" + last


async def paused(site: Part) -> set[str]:
    """Name the queues that are paused."""
    return {document.name.removeprefix(PAUSED) for document in await documents(site, PAUSED)}


async def put(site: Part, name: str, value: bytes | None, expect: int | None, keep_us: int | None) -> Document | None:
    """Write or remove a document if it is at the expected version."""
    words = [
        site.told,
        name,
        b"" if expect is None else expect,
        b"r" if value is None else b"w",
        b"" if keep_us is None else keep_us,
        value or b"",
    ]
    resumes = value is None and name.startswith(PAUSED)
    answer = await (
        site.announce(None, lambda hint: site.run(_PUT, *words, hint)) if resumes else site.run(_PUT, *words, b"")
    )
    if answer is None:
        return None
    now, version = int(answer[0]), answer[1]
    if value is None:
        return Document(name, 0, b"", now)
    return Document(name, version, value, now, None if keep_us is None else now + keep_us)
