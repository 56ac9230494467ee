"""The Redis store: the protocol, each method a script or a few, on the caller's own loop."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dibs.clock import Clock as RealClock
from dibs.domain.errors import NotSupported, StoreUnavailable
from dibs.store import Capabilities, Refusal, Written, alone
from dibs.stores.common.asking import is_busy, until_free
from dibs.stores.common.herald import Herald
from dibs.stores.common.leases import NoneLate
from dibs.stores.common.naming import Overtaken, is_plain
from dibs.stores.common.restoring import Whole, whole
from dibs.stores.common.sites import Sites
from dibs.stores.common.waiting import Waiting
from dibs.stores.redis import (
    address,
    claiming,
    counting,
    examining,
    finding,
    inserting,
    keys,
    reading,
    registry,
    removing,
    restoring,
    staging,
    writing,
)
from dibs.stores.redis.site import Site
from dibs.stores.redis.wake import pace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.clock import Clock
    from dibs.domain.finding import Finding
    from dibs.domain.job import (
        ClaimRequest,
        Counts,
        Document,
        Draft,
        Event,
        Extension,
        Job,
        Outcome,
        Query,
        QueueInfo,
    )
    from dibs.domain.transitions import Write
    from dibs.store import Audit, Rivals

_TRIES = 50  # how often an enqueue is tried that others were faster with


def from_url(url: str, clock: Clock) -> RedisStore:
    """Make a store of ``redis://user:password@host:6379/0``; it connects when it is first used."""
    return RedisStore(url, clock)


class RedisStore:
    """Jobs on a Redis or Valkey server, as durable as that is set up to be, shared by any processes of any machines."""

    capabilities = Capabilities(durable=True, shared=True, transactions=False, migrates=False)

    def __init__(self, url: str, clock: Clock) -> None:
        self._address = address.read(url)
        self._shard = keys.single(self._address.prefix, self._address.database)
        self._clock = clock
        self._told = clock.now if type(clock).now is not RealClock.now else lambda: None
        self._waiting = Waiting(clock)
        self._herald = Herald()
        self._none_late = NoneLate()
        self._sites = Sites(
            self._address.name,
            lambda: Site(self._address, self._shard, self._told, self._waiting, self._herald),
        )

    # Life

    async def open(self) -> None:
        await reading.now(self._sites.here())

    async def close(self) -> None:
        await self._sites.close(lambda: self._waiting.tell(None))

    async def now(self) -> int:
        return await reading.now(self._sites.here())

    # Insert

    async def insert(self, groups: Sequence[Sequence[Draft]], *, connection: Any = None) -> list[list[Job] | Refusal]:
        """Insert groups together; if anything stands in the way, each by itself, in order."""
        refuse(connection)
        site = self._sites.here()
        answers: list[list[Job] | Refusal] = []
        for some in inserting.steps(groups):
            if is_plain(some, tagged=True):
                with suppress(Overtaken):
                    answers += await inserting.insert_plain(site, some)
                    continue
            answers += [await self._insert_group(site, group) for group in some]
        return answers

    async def _insert_group(self, site: Site, group: Sequence[Draft]) -> list[Job] | Refusal:
        for attempt in range(_TRIES):
            with suppress(Overtaken):
                return await inserting.insert_group(site, group)
            await asyncio.sleep(self._clock.random.uniform(0, 0.001 * attempt))
        raise StoreUnavailable(f"{self._address.name}: others were faster {_TRIES} times in a row")

    # Claim, extend, write

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[list[Job]]:
        began = time.monotonic()
        claimed = await claiming.claim(self._sites.here(), requests, self._clock.random)
        if claimed.first_lease is not None:
            self._believe(began, claimed.first_lease)
        self._none_late.claimed(began, (job for jobs in claimed.answers for job in jobs))
        return claimed.answers

    async def extend(self, extensions: Sequence[Extension]) -> list[Outcome]:
        site = self._sites.here()
        ids = [extension.ref.id for extension in extensions]
        return await until_free(extensions, ids, lambda some: writing.extend(site, some), lambda _: False, ())

    async def write(self, writes: Sequence[Write], *, connection: Any = None) -> list[Written]:
        refuse(connection)
        site = self._sites.here()
        ids = [write.id for write in writes]
        return await until_free(writes, ids, lambda some: writing.write(site, some), is_busy)

    async def restore(self, items: Sequence[tuple[Job, Sequence[Event]]]) -> list[Job | None]:
        site = self._sites.here()
        return [answer for some in restoring.steps(whole(items)) for answer in await self._restore(site, some)]

    async def _restore(self, site: Site, items: Sequence[Whole]) -> list[Job | None]:
        for attempt in range(_TRIES):
            with suppress(Overtaken):
                return await restoring.restore(site, items)
            await asyncio.sleep(self._clock.random.uniform(0, 0.001 * attempt))
        raise StoreUnavailable(f"{self._address.name}: others were faster {_TRIES} times in a row")

    # Maintenance

    async def expired(self, limit: int) -> list[Job]:
        """List claimed jobs whose lease has run out. Many who look in vain at once ask the server once."""
        if self._none_late.holds():
            return []
        began = time.monotonic()
        found, seconds = await reading.expired(self._sites.here(), limit)
        if not found:
            self._believe(began, seconds)
        return found

    def _believe(self, began: float, seconds: float) -> None:
        if self._told() is None:
            self._none_late.believe(began, seconds)

    async def prune(self, limit: int) -> int:
        site = self._sites.here()
        pruned = await removing.prune(site, limit)
        await removing.sweep(site)
        await staging.sweep(site)
        return pruned

    async def wait(self, request: ClaimRequest, timeout: float, _rivals: Rivals = alone, /) -> frozenset[str] | None:
        """Return soon after a job has come: at once from this process, within some milliseconds from another."""
        site = self._sites.here()
        names = [*claiming.names(request.queues), *claiming.names(request.tasks)]
        return await self._waiting.wait(
            request, timeout, lambda _: reading.peek(site, request, names), lambda: pace(site)
        )

    # Reading

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        return await reading.get(self._sites.here(), ids)

    async def find(self, query: Query) -> tuple[list[Job], int | None]:
        return await finding.find(self._sites.here(), query)

    async def log(self, id: str) -> list[Event]:
        return await reading.log(self._sites.here(), id)

    async def audit(self, cursor: str | None, limit: int) -> Audit:
        return await reading.audit(self._sites.here(), cursor, limit)

    async def counts(self, queue: str | None = None) -> Counts:
        return counting.counts([await counting.tally(self._sites.here(), queue)])

    async def queues(self) -> list[QueueInfo]:
        site = self._sites.here()
        return counting.queues([await counting.tally(site)], await registry.paused(site))

    async def read(self, name: str) -> Document | None:
        return await registry.read(self._sites.here(), name)

    async def documents(self, prefix: str) -> list[Document]:
        return await registry.documents(self._sites.here(), prefix)

    async def put(
        self, name: str, value: bytes | None, *, expect: int | None = None, keep_us: int | None = None
    ) -> Document | None:
        return await registry.put(self._sites.here(), name, value, expect, keep_us)

    async def migrate(self, *, dry_run: bool = False) -> list[str]:
        """There is no schema: keys are made as they are needed."""
        del dry_run
        return []

    async def examine(self) -> list[Finding]:
        return await examining.examine(self._address, [self._shard], self._clock)


def refuse(connection: Any) -> None:
    """Say that a caller's own connection cannot be used."""
    if connection is not None:
        raise NotSupported("connection: Redis has no transactions that dibs could join", hint="Leave connection out.")
