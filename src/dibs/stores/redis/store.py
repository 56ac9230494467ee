"""The Redis store: the protocol, each method a script or a few, on the caller's own loop."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dibs.clock import Clock as RealClock
from dibs.domain.errors import NotSupported, StoreUnavailable
from dibs.domain.job import Outcome
from dibs.domain.retry import SECOND
from dibs.store import Capabilities, Refusal, Written
from dibs.stores.common.asking import rounds, until_free
from dibs.stores.common.herald import Herald
from dibs.stores.common.naming import Overtaken, is_plain
from dibs.stores.common.waiting import Pace, Waiting
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
    writing,
)
from dibs.stores.redis.site import Site
from dibs.stores.redis.wake import DEAF, LISTENING

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
        Query,
        QueueInfo,
    )
    from dibs.domain.transitions import Write
    from dibs.store import Audit

_TRIES = 50  # how often an enqueue is tried that others were faster with
_NONE_LATE_SECONDS = 1.5  # how long it is believed that no lease has run out


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
        self._none_late = 0.0  # until when no lease will have run out that anyone knows of, by real time
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._sites: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Site] = weakref.WeakKeyDictionary()

    # Life

    def _site(self) -> Site:
        if self._pid != os.getpid():
            raise StoreUnavailable(
                f"{self._address.name} was opened before this process was forked off",
                hint="Open a store of its own in each process.",
            )
        loop = asyncio.get_running_loop()
        with self._lock:
            site = self._sites.get(loop)
            if site is None:
                site = self._sites[loop] = Site(self._address, self._shard, self._told, self._waiting, self._herald)
            return site

    async def open(self) -> None:
        await reading.now(self._site())

    async def close(self) -> None:
        if self._pid != os.getpid():
            return
        here = asyncio.get_running_loop()
        with self._lock:
            sites = dict(self._sites)
            self._sites.clear()
        self._waiting.tell(None)
        for loop, site in sites.items():
            if loop is here:
                await site.close()
            else:
                with suppress(RuntimeError):  # the loop was closed, and its connections with it
                    loop.call_soon_threadsafe(site.terminate)

    async def now(self) -> int:
        return await reading.now(self._site())

    # Insert

    async def insert(self, groups: Sequence[Sequence[Draft]], *, connection: Any = None) -> list[list[Job] | Refusal]:
        """Insert groups together; if anything stands in the way, each by itself, in order."""
        _refuse(connection)
        site = self._site()
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
        claimed = await claiming.claim(self._site(), requests, self._clock.random)
        if claimed.first_lease is not None:
            self._believe(began, claimed.first_lease)
        leases = [job.claim_lease_us or 0 for jobs in claimed.answers for job in jobs]
        if leases and min(leases) < _NONE_LATE_SECONDS * SECOND:
            self._none_late = min(self._none_late, time.monotonic() + min(leases) / SECOND)
        return claimed.answers

    async def extend(self, extensions: Sequence[Extension]) -> list[Outcome]:
        site = self._site()
        outcomes = [Outcome.LOST] * len(extensions)
        for places in rounds(list(range(len(extensions))), [extension.ref.id for extension in extensions]):
            found = await writing.extend(site, [extensions[at] for at in places])
            for at, outcome in zip(places, found, strict=True):
                outcomes[at] = outcome
        return outcomes

    async def write(self, writes: Sequence[Write], *, connection: Any = None) -> list[Written]:
        _refuse(connection)
        site = self._site()
        return await until_free(
            writes,
            [write.id for write in writes],
            lambda some: writing.write(site, some),
            lambda answer: answer.outcome is Outcome.BUSY,
        )

    # Maintenance

    async def expired(self, limit: int) -> list[Job]:
        """List claimed jobs whose lease has run out. Many who look in vain at once ask the server once."""
        if time.monotonic() < self._none_late:
            return []
        began = time.monotonic()
        found, seconds = await reading.expired(self._site(), limit)
        if not found:
            self._believe(began, seconds)
        return found

    def _believe(self, began: float, seconds: float) -> None:
        """Believe for a while that no lease has run out: the first does so many seconds after what was asked began."""
        if seconds > 0 and self._told() is None:
            self._none_late = began + min(seconds, _NONE_LATE_SECONDS)

    async def prune(self, limit: int) -> int:
        site = self._site()
        pruned = await removing.prune(site, limit)
        await removing.sweep(site)
        return pruned

    async def wait(self, request: ClaimRequest, timeout: float) -> None:
        """Return soon after a job has come: at once from this process, within some milliseconds from another."""
        site = self._site()
        names = [*claiming.names(request.queues), *claiming.names(request.tasks)]
        await self._waiting.wait(request, timeout, lambda: reading.peek(site, request, names), lambda: _pace(site))

    # Reading

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        return await reading.get(self._site(), ids)

    async def find(self, query: Query) -> tuple[list[Job], int | None]:
        return await finding.find(self._site(), query)

    async def log(self, id: str) -> list[Event]:
        return await reading.log(self._site(), id)

    async def audit(self, cursor: str | None, limit: int) -> Audit:
        return await reading.audit(self._site(), cursor, limit)

    async def counts(self, queue: str | None = None) -> Counts:
        return await counting.counts(self._site(), queue)

    async def queues(self) -> list[QueueInfo]:
        return await counting.queues(self._site())

    async def read(self, name: str) -> Document | None:
        return await registry.read(self._site(), name)

    async def documents(self, prefix: str) -> list[Document]:
        return await registry.documents(self._site(), prefix)

    async def put(
        self, name: str, value: bytes | None, *, expect: int | None = None, keep_us: int | None = None
    ) -> Document | None:
        return await registry.put(self._site(), name, value, expect, keep_us)

    async def migrate(self, *, dry_run: bool = False) -> list[str]:
        """There is no schema: keys are made as they are needed."""
        del dry_run
        return []

    async def examine(self) -> list[Finding]:
        return await examining.examine(self._address, self._shard, self._clock)


async def _pace(site: Site) -> Pace:
    return LISTENING if site.listening() else DEAF


def _refuse(connection: Any) -> None:
    if connection is not None:
        raise NotSupported("connection: Redis has no transactions that dibs could join", hint="Leave connection out.")
