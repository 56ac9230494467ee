"""The store on a Redis Cluster: each method asks the shards that it concerns, and puts their answers together."""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from dibs.clock import Clock as RealClock
from dibs.domain.errors import InvalidRequest, Problem, StoreUnavailable
from dibs.domain.job import Outcome
from dibs.store import PAUSED, Capabilities, Refusal, Written, alone
from dibs.stores.common.asking import is_busy, until_free
from dibs.stores.common.herald import Herald
from dibs.stores.common.leases import NoneLate
from dibs.stores.common.naming import Overtaken, is_plain
from dibs.stores.common.restoring import whole
from dibs.stores.common.sites import Sites
from dibs.stores.common.waiting import Waiting
from dibs.stores.redis import address, counting, inserting, reading, registry, removing, writing
from dibs.stores.redis.cluster import calm, claiming, examining, looking, pauses
from dibs.stores.redis.cluster.inserting import Insertion
from dibs.stores.redis.cluster.restoring import Restoration
from dibs.stores.redis.cluster.shards import Spread
from dibs.stores.redis.cluster.site import Site
from dibs.stores.redis.cluster.together import reachable, together
from dibs.stores.redis.scripts import script
from dibs.stores.redis.store import refuse
from dibs.stores.redis.wake import pace

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

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
        Query,
        QueueInfo,
    )
    from dibs.domain.transitions import Write
    from dibs.store import Audit, Rivals

T = TypeVar("T")

_SPREAD = script("spread")

_PATIENCE = 10.0  # seconds that an enqueue is tried that others were faster with
_PAUSE = 0.02
_SPREAD_SECONDS = 5.0  # how long it is believed over how many shards queues are spread
_MISSING = Written(Outcome.MISSING, None)


def from_url(url: str, clock: Clock) -> ClusterStore:
    """Make a store of ``redis+cluster://user:password@host:6379``; it connects when it is first used."""
    return ClusterStore(url, clock)


class ClusterStore:
    """Jobs on a Redis or Valkey cluster, in shards that are spread over all of its masters."""

    capabilities = Capabilities(durable=True, shared=True, transactions=False, migrates=False)

    def __init__(self, url: str, clock: Clock) -> None:
        self._address = address.read(url)
        self._clock = clock
        self._told = clock.now if type(clock).now is not RealClock.now else lambda: None
        self._waiting = Waiting(clock)
        self._herald = Herald()
        self._none_late = NoneLate()
        self._spread: Spread | None = None
        self._spread_at = -math.inf
        self._sites = Sites(self._address.name, lambda: Site(self._address, self._told, self._waiting, self._herald))

    # Life

    async def open(self) -> None:
        await self._where(self._sites.here())

    async def close(self) -> None:
        await self._sites.close(lambda: self._waiting.tell(None))

    async def now(self) -> int:
        return max(await together(reading.now(part) for part in self._sites.here().parts))

    async def _where(self, site: Site) -> Spread:
        """Say over how many shards queues are spread. Others may spread them further, so it is asked now and then."""
        spread, now = self._spread, time.monotonic()
        if spread is not None and now < self._spread_at + _SPREAD_SECONDS:
            return spread
        self._spread_at = now
        try:
            answer = await site.parts[0].run(_SPREAD, *(word for one in self._address.partitions for word in one))
        except StoreUnavailable:
            if spread is None:
                raise
            return spread
        self._spread = Spread(
            {queue.decode(): int(number) for queue, number in zip(answer[::2], answer[1::2], strict=True)}
        )
        for queue, number in self._address.partitions:
            if self._spread.of(queue) % number:
                what = f"partitions={queue}:{number}: its jobs are in {self._spread.of(queue)} already"
                raise InvalidRequest([Problem("url", f"{what}, which can only become a multiple of that")])
        return self._spread

    # Insert

    async def insert(self, groups: Sequence[Sequence[Draft]], *, connection: Any = None) -> list[list[Job] | Refusal]:
        """Insert groups together; if anything stands in the way, each by itself, in order."""
        refuse(connection)
        site = self._sites.here()
        spread = await self._where(site)
        answers: list[list[Job] | Refusal] = []
        for some in inserting.steps(groups):
            insertion = Insertion(site.parts, site.owners, spread)
            if is_plain(some, tagged=True):
                with suppress(Overtaken):
                    answers += await insertion.plain(some)
                    continue
            answers += [await self._insert_group(insertion, group) for group in some]
        return answers

    async def _insert_group(self, insertion: Insertion, group: Sequence[Draft]) -> list[Job] | Refusal:
        return await self._patiently(lambda: insertion.group(group))

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask again for a while if others were faster."""
        end = time.monotonic() + _PATIENCE
        while True:
            with suppress(Overtaken):
                return await ask()
            if time.monotonic() > end:
                raise StoreUnavailable(f"{self._address.name}: others were faster for {_PATIENCE:.0f} seconds")
            await asyncio.sleep(self._clock.random.uniform(0, _PAUSE))

    # Claim, extend, write

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[list[Job]]:
        began = time.monotonic()
        site = self._sites.here()
        answers = await claiming.claim(site, await self._where(site), requests, self._clock.random)
        self._none_late.claimed(began, (job for jobs in answers for job in jobs))
        return answers

    async def extend(self, extensions: Sequence[Extension]) -> list[Outcome]:
        places = self._sites.here().places
        ids = [extension.ref.id for extension in extensions]

        async def ask(some: list[Extension]) -> list[Outcome]:
            named = [extension.ref.id for extension in some]
            return await places.each(some, named, writing.extend, missing=Outcome.LOST, away=Outcome.BUSY)

        return await until_free(extensions, ids, ask, lambda _: False, ())

    async def write(self, writes: Sequence[Write], *, connection: Any = None) -> list[Written]:
        refuse(connection)
        places = self._sites.here().places
        ids = [write.id for write in writes]

        # Who does not answer may have done it, so that is told: "busy" would say that nothing has changed.
        async def ask(some: list[Write]) -> list[Written]:
            return await places.each(some, [write.id for write in some], writing.write, missing=_MISSING)

        answers = await until_free(writes, ids, ask, is_busy)
        places.forget(id for id, answer in zip(ids, answers, strict=True) if not is_busy(answer))
        return answers

    async def restore(self, items: Sequence[tuple[Job, Sequence[Event]]]) -> list[Job | None]:
        wholes = whole(items)
        if not wholes:
            return []
        site = self._sites.here()
        restoration = Restoration(site.parts, site.owners, await self._where(site))
        return await self._patiently(lambda: restoration.restore(wholes))

    # Maintenance

    async def expired(self, limit: int) -> list[Job]:
        """List claimed jobs whose lease has run out. Many who look in vain, in all processes, ask the masters once."""
        if self._none_late.holds():
            return []
        site, real = self._sites.here(), self._told() is None
        began = time.monotonic()
        if real and (calm_seconds := await calm.seconds(site)):
            self._none_late.believe(began, calm_seconds)
            return []
        began = time.monotonic()
        found = await reachable(reading.expired(part, limit) for part in site.parts)
        late = [job for one in found if one is not None for job in one[0]]
        seconds = [one[1] for one in found if one is not None]
        if real and not late and len(seconds) == len(found):
            self._none_late.believe(began, min(seconds))
            await calm.note(site, self._none_late.left())
        return sorted(late, key=lambda job: job.lease_expires_us or 0)[:limit]

    async def prune(self, limit: int) -> int:
        parts = self._sites.here().parts
        pruned = 0
        away: StoreUnavailable | None = None
        for part in self._clock.random.sample(parts, len(parts)):
            try:
                pruned += await removing.prune(part, limit - pruned)
                await removing.sweep(part)
            except StoreUnavailable as error:
                away = error
        with suppress(StoreUnavailable):
            await pauses.copy(parts)
        if away is not None and not pruned:
            raise away
        return pruned

    async def wait(self, request: ClaimRequest, timeout: float, _rivals: Rivals = alone, /) -> frozenset[str] | None:
        """Return soon after a job has come: at once from this process, within some milliseconds from another."""
        site = self._sites.here()
        spread = await self._where(site)
        return await self._waiting.wait(
            request, timeout, lambda queues: claiming.peek(site, spread, request, queues), lambda: pace(site)
        )

    # Reading

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        return await self._sites.here().places.each(ids, ids, reading.get, missing=None)

    async def find(self, query: Query) -> tuple[list[Job], int | None]:
        return await looking.find(self._sites.here(), query)

    async def log(self, id: str) -> list[Event]:
        return await looking.log(self._sites.here(), id)

    async def audit(self, cursor: str | None, limit: int) -> Audit:
        return await looking.audit(self._sites.here(), cursor, limit)

    async def counts(self, queue: str | None = None) -> Counts:
        return counting.counts(await together(counting.tally(part, queue) for part in self._sites.here().parts))

    async def queues(self) -> list[QueueInfo]:
        parts = self._sites.here().parts
        tallies = await together(counting.tally(part) for part in parts)
        return counting.queues(tallies, await registry.paused(parts[0]))

    async def read(self, name: str) -> Document | None:
        return await registry.read(self._sites.here().parts[0], name)

    async def documents(self, prefix: str) -> list[Document]:
        return await registry.documents(self._sites.here().parts[0], prefix)

    async def put(
        self, name: str, value: bytes | None, *, expect: int | None = None, keep_us: int | None = None
    ) -> Document | None:
        parts = self._sites.here().parts
        document = await registry.put(parts[0], name, value, expect, keep_us)
        if document is not None and name.startswith(PAUSED):
            await pauses.copy(parts, resumed=value is None)
        return document

    async def migrate(self, *, dry_run: bool = False) -> list[str]:
        """There is no schema: keys are made as they are needed."""
        del dry_run
        return []

    async def examine(self) -> list[Finding]:
        return await examining.examine(self._address, self._clock)
