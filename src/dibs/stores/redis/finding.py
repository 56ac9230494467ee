"""Find: what drives the search is the narrowest thing asked for, and the rest is looked at here.

A batch and a tag have an index; jobs of a state are sorted if they are few; otherwise the enqueue order is walked, at
the price of what is skipped. That is dear for a queue or a worker that is rare among millions, and for ``q``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.stores.redis import values
from dibs.stores.redis.reading import by_seq
from dibs.stores.redis.scripts import script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dibs.domain.job import Job, Query
    from dibs.stores.redis.part import Part

_INDEX = script("find_index")
_ORDER = script("find_order")
_FEW = script("find_few")

_SORTABLE = 2_000  # jobs of a state that are sorted rather than sought among all others
_LEAST = 20  # jobs read at a time, at least


async def find(site: Part, query: Query) -> tuple[list[Job], int | None]:
    """Read one page, and the cursor of the next."""
    return cut(await page(site, query), query)


def cut(found: list[tuple[int, Job]], query: Query) -> tuple[list[Job], int | None]:
    """Make a page of what was found, one more than it may have; its cursor is the last one's place."""
    if len(found) <= query.limit:
        return [job for _, job in found], None
    return [job for _, job in found[: query.limit]], found[query.limit - 1][0]


async def page(site: Part, query: Query) -> list[tuple[int, Job]]:
    """Read jobs with their places in the order of enqueueing, one more than asked for, if there are so many."""
    found: list[tuple[int, Job]] = []
    step = max(query.limit + 1, _LEAST)
    async for seqs in _places(site, query, step):
        for seq, job in zip(seqs, await by_seq(site, seqs), strict=True):
            if job is not None and query.matches(job):
                found.append((values.number(seq), job))
                if len(found) > query.limit:
                    return found
    return found


async def _places(site: Part, query: Query, step: int) -> AsyncIterator[list[bytes]]:
    """Name candidates in the order asked for, some at a time."""
    index = values.batch(query.batch_id) if query.batch_id is not None else None
    if index is None and query.tag is not None:
        index = values.tag(query.tag)
    if index is not None:
        pages = _indexed(site, query, index, step)
    elif query.status and (few := await _few(site, query)) is not None:
        pages = _listed(few, query, step)
    else:
        pages = _ordered(site, query, step)
    async for page in pages:
        yield page


async def _indexed(site: Part, query: Query, index: bytes, step: int) -> AsyncIterator[list[bytes]]:
    low, high = b"[" + index, b"(" + index + b"\xff"
    if query.cursor is not None:
        place = b"(" + index + values.long(query.cursor)
        low, high = (place, high) if query.oldest_first else (low, place)
    while True:
        found = await site.run(_INDEX, low, high, int(not query.oldest_first), step)
        if found:
            yield [place[-8:] for place in found]
        if len(found) < step:
            return
        low, high = (b"(" + found[-1], high) if query.oldest_first else (low, b"(" + found[-1])


async def _ordered(site: Part, query: Query, step: int) -> AsyncIterator[list[bytes]]:
    low, high = b"-", b"+"
    cursor = query.cursor
    while True:
        if cursor is not None:
            place = b"(" + values.long(cursor)
            low, high = (place, high) if query.oldest_first else (low, place)
        found = await site.run(_ORDER, low, high, int(not query.oldest_first), step)
        if found:
            yield found
        if len(found) < step:
            return
        cursor = values.number(found[-1])


async def _few(site: Part, query: Query) -> list[bytes] | None:
    known, *seqs = await site.run(_FEW, values.letters(query.status), query.queue or b"", _SORTABLE)
    return seqs if known else None


async def _listed(seqs: list[bytes], query: Query, step: int) -> AsyncIterator[list[bytes]]:
    seqs = sorted(seqs, reverse=not query.oldest_first)
    if query.cursor is not None:
        place = values.long(query.cursor)
        seqs = [seq for seq in seqs if (seq > place if query.oldest_first else seq < place)]
    for at in range(0, len(seqs), step):
        yield seqs[at : at + step]
