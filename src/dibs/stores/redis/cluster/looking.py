"""Look: what is found in all shards, put together in the order of enqueueing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.store import Audit
from dibs.stores.redis import finding, reading
from dibs.stores.redis.cluster.owners import by_id
from dibs.stores.redis.cluster.together import together

if TYPE_CHECKING:
    from dibs.domain.job import Event, Job, Query
    from dibs.stores.redis.cluster.site import Site


async def find(site: Site, query: Query) -> tuple[list[Job], int | None]:
    """Read one page, and the cursor of the next: seqs of all shards are near the time, and none is there twice."""
    pages = await together(finding.page(part, query) for part in site.parts)
    found = [one for page in pages for one in page]
    found.sort(key=lambda one: one[0], reverse=not query.oldest_first)
    return finding.cut(found[: query.limit + 1], query)


async def log(site: Site, id: str) -> list[Event]:
    """Read a job's events; of one that was pruned the last one, wherever it was."""
    [shard] = await site.places.find([id])
    if shard is not None and (events := await reading.log(site.parts[shard], id)):
        return events
    found = await together(reading.log(part, id) for part in site.parts)
    return max(found, key=lambda events: events[-1].at_us if events else 0)


async def audit(site: Site, cursor: str | None, limit: int) -> Audit:
    """Read shard after shard."""
    place, _, rest = (cursor or "0/").partition("/")
    shard = int(place)
    found = await reading.audit(site.parts[shard], rest or None, limit)
    gone = [events[-1].job_id for job, events in found.items if job is None]
    again = {id for id, owner in zip(gone, await site.owners.read([by_id(id) for id in gone]), strict=True) if owner}
    items = [(job, events) for job, events in found.items if job is not None or events[-1].job_id not in again]
    if found.cursor is not None:
        return Audit(items, f"{shard}/{found.cursor}")
    return Audit(items, f"{shard + 1}/" if shard + 1 < len(site.parts) else None)
