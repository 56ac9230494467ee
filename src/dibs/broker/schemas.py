"""Schemas over a store: one document for each task, changed by compare-and-set only.

Workers publish what their code says, and read all documents once to do so; what is there already is not written again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from dibs.domain import schema
from dibs.domain.errors import StoreUnavailable
from dibs.domain.schema import Record, SchemaInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.domain.job import Document
    from dibs.domain.schema import Offer
    from dibs.store import Store

SCHEMAS = "schema/"
"""Documents of this prefix are the schemas of tasks: ``schema/mail/send`` is that of ``mail/send``."""
TRIES = 20
"""How often a change is tried again that others were faster with."""

_decoder = msgspec.json.Decoder(Record)


class Schemas:
    """Publishes schemas, and lists them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def publish(self, offers: Sequence[Offer], by: str | None) -> int:
        """Make known what workers take; say how many schemas had to be written for it."""
        schema.check_offers(offers)
        if not offers:
            return 0
        found = {document.name: document for document in await self._store.documents(SCHEMAS)}
        now = await self._store.now()
        written = 0
        for offer in offers:
            written += await self._publish(offer, found.get(SCHEMAS + offer.task), now, by)
        return written

    async def _publish(self, offer: Offer, found: Document | None, now: int, by: str | None) -> bool:
        name = SCHEMAS + offer.task
        for _ in range(TRIES):
            known = None if found is None else _decoder.decode(found.value)
            record = schema.published(known, offer, now, by)
            if record is None:
                return False
            value, version = msgspec.json.encode(record), 0 if found is None else found.version
            if await self._store.put(name, value, expect=version, keep_us=schema.KEPT) is not None:
                return True
            # Race: another worker has published meanwhile. What it wrote is kept beside ours, or is ours.
            found = await self._store.read(name)
        raise StoreUnavailable(f"others keep publishing schemas of task {offer.task!r}", hint="Try again.")

    async def all(self) -> list[SchemaInfo]:
        """List the schemas that params may fit, by task, and the newest of a task first."""
        documents = await self._store.documents(SCHEMAS)
        now = await self._store.now()
        return [
            info
            for document in documents
            for info in schema.infos_of(document.name.removeprefix(SCHEMAS), _decoder.decode(document.value), now)
        ]
