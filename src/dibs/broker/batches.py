"""Batches over a store: how far one has come is read from its jobs, and its last job is enqueued when all have ended.

A batch is no more than an id that its jobs share. Only one that something is to be done about is a document, from the
moment that it is sealed until it has ended. Any number of processes may look: all of them that find it ended enqueue
the last job, under a key of its own, so that the first makes it and the others find it; then the document is removed.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from dibs.broker.intake import MAX_PAGE, drafts_of
from dibs.domain import batch
from dibs.domain.batch import BatchInfo, Sealed
from dibs.domain.errors import InvalidRequest, TooLarge
from dibs.domain.job import UNFINISHED, Query, Status
from dibs.store import EXACT_COUNT, Refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from dibs.clock import Clock
    from dibs.domain.job import Document, Draft, Job
    from dibs.domain.newjob import NewJob
    from dibs.domain.settings import Config
    from dibs.store import Store

    Insert = Callable[[list[Draft]], Awaitable[list[Job] | Refusal]]

logger = logging.getLogger("dibs")

BATCHES = "batch/"
"""Documents of this prefix are the batches that were sealed, and have a job to end with."""
AT_ONCE = 50
"""How many of them one look is for; which, is left to chance."""

_UNFINISHED = tuple(sorted(UNFINISHED))
_decoder = msgspec.json.Decoder(Sealed)


class Batches:
    """Seals batches, and sees that each one's last job is enqueued when it has ended."""

    def __init__(self, store: Store, clock: Clock, config: Config, insert: Insert) -> None:
        self._store = store
        self._clock = clock
        self._config = config
        self._insert = insert

    async def seal(self, id: str, on_end: NewJob) -> None:
        """Note what is to be enqueued when all jobs of a batch have ended; that may be now. To do so twice is safe."""
        draft = draft_of(id, on_end, self._config, self._clock)
        value = msgspec.json.encode(Sealed(draft))
        document = await self._store.put(BATCHES + id, value, expect=0, keep_us=batch.KEPT)
        if document is not None:  # else it was sealed before, and is looked after
            await self._end(document)

    async def info(self, id: str, queue: str | None = None) -> BatchInfo:
        """Count the jobs of a batch, in all queues or in one: the newest 10,000 of them."""
        batch.check_batch_id(id)
        counted: Counter[Status] = Counter()
        cursor: int | None = None
        while True:
            jobs, cursor = await self._store.find(Query(batch_id=id, queue=queue, limit=MAX_PAGE, cursor=cursor))
            counted.update(job.status for job in jobs)
            if cursor is None or counted.total() >= EXACT_COUNT:
                return batch.info_of(id, counted, exact=cursor is None)

    async def _has_ended(self, id: str) -> bool:
        """Say whether no job of a batch is left to be done."""
        unfinished = Query(batch_id=id, status=_UNFINISHED, limit=1)
        # Race: a store that is read part by part. A job that one of this batch adds, and then ends itself, may be added
        # where was looked already; it is there for the second look.
        for _ in range(2):
            jobs, _cursor = await self._store.find(unfinished)
            if jobs:
                return False
        return True

    async def look(self) -> None:
        """Enqueue the last jobs of batches that have ended."""
        documents = await self._store.documents(BATCHES)
        for document in self._clock.random.sample(documents, min(AT_ONCE, len(documents))):
            await self._end(document)

    async def _end(self, document: Document) -> None:
        id = document.name.removeprefix(BATCHES)
        if not await self._has_ended(id):
            return
        draft = msgspec.structs.replace(_decoder.decode(document.value).draft, id=self._clock.new_id())
        if isinstance(await self._insert([draft]), Refusal):
            logger.warning("batch %r: its last job was enqueued with other params before", id)
        # Race: whoever dies before this leaves a batch that has ended once more, and enqueues under the same key.
        await self._store.put(document.name, None, expect=document.version)


def draft_of(id: str, on_end: NewJob, config: Config, clock: Clock) -> Draft:
    """Check a batch's last job; give what is enqueued when it has ended."""
    batch.check_batch_id(id, most=batch.MAX_ID)
    if problems := batch.check_last(on_end):
        raise InvalidRequest(problems)
    # With a key, as it will have: a job with one is kept longer.
    keyed = msgspec.structs.replace(on_end, idempotency_key=batch.key_of(id))
    [draft] = drafts_of([keyed], config, clock)
    if len(draft.params_json) > batch.MAX_PARAMS:
        raise TooLarge("on_end.params", len(draft.params_json), batch.MAX_PARAMS)
    return batch.last_of(draft, id)
