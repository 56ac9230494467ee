"""The PostgreSQL store: the protocol, each method a statement or a short transaction on the caller's own loop."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg

from dibs.domain.errors import StoreUnavailable
from dibs.domain.job import Outcome
from dibs.domain.retry import SECOND
from dibs.store import Capabilities, Refusal, Written
from dibs.stores.common.herald import Herald
from dibs.stores.common.naming import Lanes, Overtaken, is_plain, keys
from dibs.stores.common.places import Places
from dibs.stores.common.waiting import Pace, Waiting
from dibs.stores.postgres import (
    address,
    claiming,
    examining,
    finding,
    inserting,
    migrate,
    reading,
    registry,
    removing,
    theirs,
    writing,
)
from dibs.stores.postgres.counting import Counter
from dibs.stores.postgres.errors import AGAIN, FAILURES, translate
from dibs.stores.postgres.pool import Pool
from dibs.stores.postgres.site import Site, Time
from dibs.stores.postgres.wake import POLL_SECONDS, TRUST_SECONDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Sequence

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
    from dibs.stores.postgres.turn import Turn

T = TypeVar("T")

_STEP = 100  # things of a kind removed in one transaction
_TRIES = 20  # how often something is tried that others were faster with
_PATIENCE_SECONDS = 30.0  # how long an enqueue waits for another's open transaction that may be about to use its name
_PATIENCE = f"{_PATIENCE_SECONDS:g}s"
_SEARCH_SECONDS = 50.0  # what may be much to read takes so much longer than others may
_BYTES_A_SECOND = 2**20  # so much is sent in a second over a slow line
_BUSY_SECONDS = (0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128)  # between two tries of a row that another one holds
_NONE_LATE_SECONDS = 1.5  # how long it is believed that no lease has run out
_ASK_AHEAD_SECONDS = 1.0  # how long before that is over a claim in vain asks in passing: one that waits looks as often


def from_url(url: str, clock: Clock) -> PostgresStore:
    """Make a store of ``postgresql://user:password@host/database``; it connects when it is first used."""
    return PostgresStore(url, clock)


class PostgresStore:
    """Jobs in a PostgreSQL database, durable when acknowledged, shared by any processes of any machines."""

    capabilities = Capabilities(durable=True, shared=True, transactions=True, migrates=True)

    def __init__(self, url: str, clock: Clock) -> None:
        self._address = address.read(url)
        self._clock = clock
        self._time = Time(clock)
        self._waiting = Waiting(clock)
        self._herald = Herald()
        self._places = Places(clock)
        self._counter = Counter(clock)
        self._lanes: Lanes = {}
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
                site = self._sites[loop] = Site(self._address, self._time, self._waiting, self._herald)
            return site

    async def open(self) -> None:
        await self._again(reading.now)

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

    async def _run(self, run: Callable[[Turn], Awaitable[T]], more: float = 0.0) -> T:
        """Run on a connection of this loop; what becomes pending is told after it has been committed."""
        site = self._site()
        async with site.turn(more=more) as turn:
            answer = await run(turn)
            if turn.returned:
                self._places.returned(turn.returned)
            if turn.news or turn.resumed:
                await site.tell(turn, None if turn.resumed else turn.news)
        return answer

    async def _again(self, run: Callable[[Turn], Awaitable[T]], more: float = 0.0) -> T:
        """Run; once more if others were faster. Nothing of it was written then."""
        for attempt in range(_TRIES):
            try:
                return await self._run(run, more)
            except Overtaken:
                self._lanes.clear()
            except StoreUnavailable as error:
                if not isinstance(error.__cause__, AGAIN):
                    raise
            await asyncio.sleep(self._clock.random.uniform(0, 0.001 * attempt))
        raise StoreUnavailable(f"{self._address.name}: others were faster {_TRIES} times in a row")

    async def now(self) -> int:
        return await self._again(reading.now)

    # Insert

    async def insert(self, groups: Sequence[Sequence[Draft]], *, connection: Any = None) -> list[list[Job] | Refusal]:
        """Insert all groups in one statement; if anything stands in the way, each by itself, in order.

        A group alone waits for another's open transaction that may be about to take one of its names. Among several it
        is refused as busy, so that no one waits for a transaction that is not in the way of their own.
        """
        if connection is not None:
            return [await self._insert_on(connection, group) for group in groups]
        if is_plain(groups):
            with suppress(Overtaken):
                return [*await self._insert_plain(groups)]
        if len(groups) == 1:
            async with self._site().patient:
                return [await self._insert_patiently(groups[0])]
        answers: list[list[Job] | Refusal] = []
        for group in groups:
            try:
                answers.append(await self._insert_group(group, inserting.SHORT))
            except StoreUnavailable as error:
                if not isinstance(error.__cause__, asyncpg.LockNotAvailableError):
                    raise
                answers.append(Refusal(0, "id", group[0].job(0), busy=True))
        return answers

    async def _insert_plain(self, groups: Sequence[Sequence[Draft]]) -> list[list[Job]]:
        """Insert all at once; ``Overtaken`` if anything stands in the way, and each group is to go its own."""
        lanes = await self._lanes_of(groups)
        try:
            more = _sending(draft.params_json for group in groups for draft in group)
            return await self._run(lambda turn: inserting.insert_plain(turn, groups, lanes), more)
        except StoreUnavailable as error:
            if isinstance(error.__cause__, (*AGAIN, asyncpg.LockNotAvailableError)):
                raise Overtaken from error
            raise
        except Overtaken:
            self._lanes.clear()
            raise

    async def _insert_patiently(self, group: Sequence[Draft]) -> list[Job] | Refusal:
        """Wait for another's open transaction, a little at a time: a server that has fallen silent is noticed then."""
        end = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return await self._insert_group(group, f"{round(self._address.timeout * 500)}ms")
            except StoreUnavailable as error:
                if not isinstance(error.__cause__, asyncpg.LockNotAvailableError) or time.monotonic() >= end:
                    raise

    async def _insert_group(self, group: Sequence[Draft], patience: str) -> list[Job] | Refusal:
        async def run(turn: Turn) -> list[Job] | Refusal:
            return await inserting.insert_group(turn, group, lanes, patience)

        for _ in range(_TRIES):
            lanes = await self._lanes_of([group])
            try:
                return await self._run(run, _sending(draft.params_json for draft in group))
            except Overtaken:
                self._lanes.clear()
            except StoreUnavailable as error:
                if not isinstance(error.__cause__, AGAIN):
                    raise
            await asyncio.sleep(self._clock.random.uniform(0, 0.005))
        raise StoreUnavailable(f"{self._address.name}: others were faster {_TRIES} times in a row")

    async def _lanes_of(self, groups: Sequence[Sequence[Draft]]) -> Lanes:
        """Find the lanes that drafts go to, mostly as this process remembers them. One may be gone: insert looks."""
        wanted = {key for group in groups for key in keys(group)}
        known = dict(self._lanes)  # others may forget it meanwhile
        missing = wanted.difference(known)
        found = {} if not missing else await self._again(lambda turn: inserting.add_lanes(turn, missing))
        if len(self._lanes) > 10_000:  # noqa: PLR2004 - names without end are not remembered without end
            self._lanes.clear()
        self._lanes.update(found)
        return {**known, **found}

    async def _insert_on(self, connection: Any, group: Sequence[Draft]) -> list[Job] | Refusal:
        site = self._site()
        connection = await theirs.driver(connection)
        for _ in range(_TRIES):
            lanes = await self._lanes_of([group])
            turn = theirs.turn(connection, self._time.told())
            try:
                async with theirs.settings(turn):
                    answer = await inserting.insert_group(turn, group, lanes, _PATIENCE)
                if turn.news:
                    await theirs.notify(turn, site.channel, self._herald.about(turn.news))
                return answer
            except Overtaken:
                self._lanes.clear()
            except theirs.failures(connection) as error:
                if not theirs.is_taken(error):
                    raise translate(error, self._address.name) from error
        raise StoreUnavailable(f"{self._address.name}: others were faster {_TRIES} times in a row")

    # Claim, extend, write

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[list[Job]]:
        async def run(turn: Turn) -> list[list[Job]]:
            began = time.monotonic()
            turn.wants_lease = began + _ASK_AHEAD_SECONDS > self._none_late
            answers = await claiming.claim(turn, requests, self._places, self._clock.random)
            if turn.first_lease is not None:
                self._believe(began, turn.first_lease)
            return answers

        claimed = await self._again(run)
        leases = [job.claim_lease_us or 0 for jobs in claimed for job in jobs]
        if leases and min(leases) < _NONE_LATE_SECONDS * SECOND:
            self._none_late = min(self._none_late, time.monotonic() + min(leases) / SECOND)
        return claimed

    async def extend(self, extensions: Sequence[Extension]) -> list[Outcome]:
        outcomes = [Outcome.BUSY] * len(extensions)
        for pause in (*_BUSY_SECONDS[:5], None):
            busy = [at for at, outcome in enumerate(outcomes) if outcome is Outcome.BUSY]
            for places in _rounds(busy, [extensions[at].ref.id for at in busy]):
                asked = [extensions[at] for at in places]
                found = await self._again(lambda turn, asked=asked: writing.extend(turn, asked))  # type: ignore[misc]
                for at, outcome in zip(places, found, strict=True):
                    outcomes[at] = outcome
            if Outcome.BUSY not in outcomes or pause is None:
                break
            await asyncio.sleep(pause)
        return outcomes

    async def write(self, writes: Sequence[Write], *, connection: Any = None) -> list[Written]:
        if connection is not None:
            return await self._write_on(connection, writes)
        answers = [Written(Outcome.BUSY, None)] * len(writes)
        for pause in (*_BUSY_SECONDS, None):
            busy = [at for at, answer in enumerate(answers) if answer.outcome is Outcome.BUSY]
            for places in _rounds(busy, [writes[at].id for at in busy]):
                found = await self._write_round([writes[at] for at in places])
                for at, answer in zip(places, found, strict=True):
                    answers[at] = answer
            if all(answer.outcome is not Outcome.BUSY for answer in answers) or pause is None:
                break
            # Transactions of dibs itself are over in a moment; a user's may take long, and is the caller's to wait for.
            await asyncio.sleep(pause)
        return answers

    async def _write_round(self, writes: Sequence[Write]) -> list[Written]:
        try:
            more = _sending(write.result_json for write in writes)
            return await self._again(lambda turn: writing.write(turn, writes), more)
        except StoreUnavailable as error:
            if not isinstance(error.__cause__, asyncpg.LockNotAvailableError):
                raise
            if len(writes) == 1:  # its unique key, or its tombstone, is in another's open transaction
                return [Written(Outcome.BUSY, None)]
        return [answer for write in writes for answer in await self._write_round([write])]

    async def _write_on(self, connection: Any, writes: Sequence[Write]) -> list[Written]:
        connection = await theirs.driver(connection)
        turn = theirs.turn(connection, self._time.told())
        answers = [Written(Outcome.BUSY, None)] * len(writes)
        try:
            for places in _rounds(list(range(len(writes))), [write.id for write in writes]):
                async with turn.transaction(), theirs.settings(turn):
                    found = await writing.write(turn, [writes[at] for at in places])
                for at, answer in zip(places, found, strict=True):
                    answers[at] = answer
        except theirs.failures(connection) as error:
            raise translate(error, self._address.name) from error
        stale = (Outcome.LOST, Outcome.MISSING)
        if any(
            write.ref is not None and answer.outcome in stale for write, answer in zip(writes, answers, strict=True)
        ):
            await theirs.abort(turn)
        elif turn.news:
            self._places.returned(turn.returned)
            await theirs.notify(turn, self._site().channel, self._herald.about(turn.news))
        return answers

    # Maintenance

    async def expired(self, limit: int) -> list[Job]:
        """List claimed jobs whose lease has run out. Many who look in vain at once ask the database once."""
        if time.monotonic() < self._none_late:
            return []
        began = time.monotonic()
        found, seconds = await self._again(lambda turn: reading.expired(turn, limit))
        if not found:
            self._believe(began, seconds)
        return found

    def _believe(self, began: float, seconds: float) -> None:
        """Believe for a while that no lease has run out: the first does so many seconds after what was asked began."""
        if seconds > 0 and self._time.told() is None:
            self._none_late = began + min(seconds, _NONE_LATE_SECONDS)

    async def prune(self, limit: int) -> int:
        """Remove in small steps, each a transaction of its own."""
        pruned = 0
        while pruned < limit:
            step = min(_STEP, limit - pruned)
            gone = await self._again(lambda turn, step=step: removing.prune(turn, step), _SEARCH_SECONDS)  # type: ignore[misc]
            pruned += gone
            if gone < step:
                break
        while await self._again(lambda turn: removing.sweep(turn, _STEP)) == _STEP:
            pass
        after: int | None = 0
        while after is not None:
            after = await self._again(lambda turn, after=after: removing.remove_lanes(turn, after, _STEP))  # type: ignore[misc]
        return pruned

    async def wait(self, request: ClaimRequest, timeout: float) -> None:
        """Return soon after a job has come: at once from this process, within some milliseconds from another."""
        site = self._site()
        await self._waiting.wait(
            request,
            timeout,
            lambda: self._again(lambda turn: reading.peek(turn, request, self._places.read())),
            lambda: _pace(site),
        )

    # Reading

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        return await self._again(lambda turn: reading.get(turn, ids))

    async def find(self, query: Query) -> tuple[list[Job], int | None]:
        return await self._again(lambda turn: finding.find(turn, query), _SEARCH_SECONDS)

    async def log(self, id: str) -> list[Event]:
        return await self._again(lambda turn: reading.log(turn, id))

    async def audit(self, cursor: str | None, limit: int) -> Audit:
        return await self._again(lambda turn: reading.audit(turn, cursor, limit), _SEARCH_SECONDS)

    async def counts(self, queue: str | None = None) -> Counts:
        return await self._again(lambda turn: self._counter.counts(turn, queue), _SEARCH_SECONDS)

    async def queues(self) -> list[QueueInfo]:
        return await self._again(self._counter.queues, _SEARCH_SECONDS)

    async def read(self, name: str) -> Document | None:
        return await self._again(lambda turn: registry.read(turn, name))

    async def documents(self, prefix: str) -> list[Document]:
        return await self._again(lambda turn: registry.documents(turn, prefix))

    async def put(
        self, name: str, value: bytes | None, *, expect: int | None = None, keep_us: int | None = None
    ) -> Document | None:
        # Writers of one document wait for each other, and the last of many on a busy machine for long.
        return await self._again(lambda turn: registry.put(turn, name, value, expect, keep_us), _PATIENCE_SECONDS)

    async def migrate(self, *, dry_run: bool = False) -> list[str]:
        pool = Pool(self._address)
        try:
            async with pool.connection() as connection:
                if dry_run:
                    return [step.name for step in (await migrate.missing(connection, self._address.name))[0]]
                return await migrate.migrate(connection, self._address.name)
        except FAILURES as error:
            raise translate(error, self._address.name) from error
        finally:
            await pool.close()

    async def examine(self) -> list[Finding]:
        return await examining.examine(self._address, self._clock)


def _sending(values: Iterable[bytes | None]) -> float:
    """Say how many seconds it may take to send so much."""
    return sum(len(value) for value in values if value is not None) / _BYTES_A_SECOND


async def _pace(site: Site) -> Pace:
    """Believe what was seen while a listener would have heard of news."""
    return Pace(TRUST_SECONDS if await site.listening() else 0.0, POLL_SECONDS)


def _rounds(places: list[int], ids: list[str]) -> list[list[int]]:
    """Split so that no job is named twice in a round: a later write of a job must see what an earlier one left."""
    rounds: list[list[int]] = []
    times: dict[str, int] = {}
    for at, id in zip(places, ids, strict=True):
        nth = times.get(id, 0)
        times[id] = nth + 1
        if nth == len(rounds):
            rounds.append([])
        rounds[nth].append(at)
    return rounds
