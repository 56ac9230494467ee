"""The PostgreSQL store: the protocol, each method a statement or a short transaction on the caller's own loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg

from dibs.domain.errors import StoreUnavailable
from dibs.domain.job import Outcome
from dibs.store import Capabilities, Refusal, Written, alone
from dibs.stores.common import pruning
from dibs.stores.common.asking import BUSY_SECONDS, is_busy, until_free
from dibs.stores.common.herald import Herald
from dibs.stores.common.leases import NoneLate
from dibs.stores.common.naming import Known, Lanes, Overtaken, is_plain
from dibs.stores.common.places import Places
from dibs.stores.common.restoring import whole
from dibs.stores.common.sites import Sites
from dibs.stores.common.waiting import Pace, Waiting, in_turn
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
    restoring,
    theirs,
    writing,
)
from dibs.stores.postgres.counting import Counter
from dibs.stores.postgres.errors import AGAIN, FAILURES, translate
from dibs.stores.postgres.link import pool
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
    from dibs.store import Audit, Rivals
    from dibs.stores.postgres.turn import Turn

T = TypeVar("T")

_TRIES = 20  # how often something is tried that others were faster with
_OVERTAKEN_SECONDS = 10.0  # how long an enqueue is tried that others were faster with
_PATIENCE_SECONDS = 30.0  # how long an enqueue waits for another's open transaction that may be about to use its name
_PATIENCE = f"{_PATIENCE_SECONDS:g}s"
_SEARCH_SECONDS = 50.0  # what may be much to read takes so much longer than others may
_BYTES_A_SECOND = 2**20  # so much is sent in a second over a slow line
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
        self._lanes = Known(lambda missing: self._again(lambda turn: inserting.add_lanes(turn, missing)))
        self._none_late = NoneLate()
        self._sites = Sites(self._address.name, lambda: Site(self._address, self._time, self._waiting, self._herald))

    # Life

    async def open(self) -> None:
        await self._again(reading.now)

    async def close(self) -> None:
        await self._sites.close(lambda: self._waiting.tell(None))

    async def _run(self, run: Callable[[Turn], Awaitable[T]], more: float = 0.0) -> T:
        """Run on a connection of this loop; what becomes pending is told after it has been committed."""
        site = self._sites.here()
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
                self._lanes.forget()
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
            async with self._sites.here().patient:
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
        lanes = await self._lanes.of(groups)
        try:
            more = _sending(draft.params_json for group in groups for draft in group)
            return await self._run(lambda turn: inserting.insert_plain(turn, groups, lanes), more)
        except StoreUnavailable as error:
            if isinstance(error.__cause__, (*AGAIN, asyncpg.LockNotAvailableError)):
                raise Overtaken from error
            raise
        except Overtaken:
            self._lanes.forget()
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
        return await self._in_lanes(
            group,
            lambda turn, lanes: inserting.insert_group(turn, group, lanes, patience),
            _sending(draft.params_json for draft in group),
        )

    async def _in_lanes(
        self, jobs: Sequence[Draft | Job], run: Callable[[Turn, Lanes], Awaitable[T]], more: float
    ) -> T:
        """Run with the lanes that jobs go to; again for a while if others were faster."""
        end = time.monotonic() + _OVERTAKEN_SECONDS
        while time.monotonic() < end:
            lanes = await self._lanes.of([jobs])
            try:
                return await self._run(lambda turn: run(turn, lanes), more)  # noqa: B023 - awaited before the next
            except Overtaken:
                self._lanes.forget()
            except StoreUnavailable as error:
                if not isinstance(error.__cause__, AGAIN):
                    raise
            await asyncio.sleep(self._clock.random.uniform(0, 0.005))
        raise StoreUnavailable(f"{self._address.name}: others were faster for {_OVERTAKEN_SECONDS:g} seconds")

    async def _insert_on(self, connection: Any, group: Sequence[Draft]) -> list[Job] | Refusal:
        site = self._sites.here()
        connection = await theirs.driver(connection)
        for _ in range(_TRIES):
            lanes = await self._lanes.of([group])
            turn = theirs.turn(connection, self._time.told())
            try:
                async with theirs.settings(turn):
                    answer = await inserting.insert_group(turn, group, lanes, _PATIENCE)
                if turn.news:
                    await theirs.notify(turn, site.channel, self._herald.about(turn.news))
                return answer
            except Overtaken:
                self._lanes.forget()
            except theirs.failures(connection) as error:
                if not theirs.is_taken(error):
                    raise translate(error, self._address.name) from error
        raise StoreUnavailable(f"{self._address.name}: others were faster {_TRIES} times in a row")

    # Claim, extend, write

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[list[Job]]:
        claimed: list[list[Job]] = [[] for _ in requests]

        async def run(turn: Turn) -> None:
            began = time.monotonic()
            turn.wants_lease = not self._none_late.holds(ahead=_ASK_AHEAD_SECONDS)
            await claiming.claim(turn, requests, self._places, self._clock.random, claimed)
            if turn.first_lease is not None:
                self._believe(began, turn.first_lease)

        began = time.monotonic()
        try:
            await self._again(run)
        except StoreUnavailable:
            if not any(claimed):  # what was leased is theirs, though there may have been more
                raise
        self._none_late.claimed(began, (job for jobs in claimed for job in jobs))
        return claimed

    async def extend(self, extensions: Sequence[Extension]) -> list[Outcome]:
        return await until_free(
            extensions,
            [extension.ref.id for extension in extensions],
            lambda some: self._again(lambda turn: writing.extend(turn, some)),
            lambda outcome: outcome is Outcome.BUSY,
            BUSY_SECONDS[:5],
        )

    async def write(self, writes: Sequence[Write], *, connection: Any = None) -> list[Written]:
        if connection is not None:
            return await self._write_on(connection, writes)
        return await until_free(writes, [write.id for write in writes], self._write_round, is_busy)

    async def _write_round(self, writes: Sequence[Write]) -> list[Written]:
        # Race: completed, and redriven by someone else before the rest is tried again. To ask for it once more would be
        # to be told that it is lost (test_what_was_completed_is_not_asked_for_again).
        done: set[str] = set()
        try:
            more = _sending(write.result_json for write in writes)
            return await self._again(lambda turn: writing.write(turn, writes, done), more)
        except StoreUnavailable as error:
            if not isinstance(error.__cause__, asyncpg.LockNotAvailableError):
                raise
            if len(writes) == 1:  # its unique key, or its tombstone, is in another's open transaction
                return [Written(Outcome.BUSY, None)]
        return [writing.COMPLETED if write.id in done else (await self._write_round([write]))[0] for write in writes]

    async def _write_on(self, connection: Any, writes: Sequence[Write]) -> list[Written]:
        connection = await theirs.driver(connection)
        turn = theirs.turn(connection, self._time.told())

        async def ask(some: list[Write]) -> list[Written]:
            async with turn.transaction(), theirs.settings(turn):
                return await writing.write(turn, some, set())

        try:
            answers = await until_free(writes, [write.id for write in writes], ask, is_busy, ())
        except theirs.failures(connection) as error:
            raise translate(error, self._address.name) from error
        stale = (Outcome.LOST, Outcome.MISSING)
        if any(
            write.ref is not None and answer.outcome in stale for write, answer in zip(writes, answers, strict=True)
        ):
            await theirs.abort(turn)
        elif turn.news:
            self._places.returned(turn.returned)
            await theirs.notify(turn, self._sites.here().channel, self._herald.about(turn.news))
        return answers

    async def restore(self, items: Sequence[tuple[Job, Sequence[Event]]]) -> list[Job | None]:
        wholes = whole(items)
        if not wholes:
            return []
        return await self._in_lanes(
            [item.job for item in wholes],
            lambda turn, lanes: restoring.restore(turn, wholes, lanes),
            _sending(item.job.params_json for item in wholes),
        )

    # Maintenance

    async def expired(self, limit: int) -> list[Job]:
        """List claimed jobs whose lease has run out. Many who look in vain at once ask the database once."""
        if self._none_late.holds():
            return []
        began = time.monotonic()
        found, seconds = await self._again(lambda turn: reading.expired(turn, limit))
        if not found:
            self._believe(began, seconds)
        return found

    def _believe(self, began: float, seconds: float) -> None:
        if self._time.told() is None:
            self._none_late.believe(began, seconds)

    async def prune(self, limit: int) -> int:
        return await pruning.prune(
            limit,
            lambda some: self._again(lambda turn: removing.prune(turn, some), _SEARCH_SECONDS),
            lambda some: self._again(lambda turn: removing.sweep(turn, some)),
            lambda after, some: self._again(lambda turn: removing.remove_lanes(turn, after, some)),
        )

    async def wait(self, request: ClaimRequest, timeout: float, rivals: Rivals = alone, /) -> frozenset[str] | None:
        """Return soon after a job has come: at once from this process, within some milliseconds from another.

        Without LISTEN another's is found by looking, and a crowd looks in turn.
        """
        site = self._sites.here()
        return await self._waiting.wait(
            request,
            timeout,
            lambda _: self._again(lambda turn: reading.peek(turn, request, self._places.read())),
            lambda: _pace(site, rivals),
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
        # Writers of one document wait for each other, and the last of many on a busy machine for long. But what expires
        # is a process's own, which says that it is alive: on a connection that has died it would wait as long in vain,
        # and its worker with it, which was told to end (test_work_goes_on).
        more = 0.0 if keep_us is not None else _PATIENCE_SECONDS
        return await self._again(lambda turn: registry.put(turn, name, value, expect, keep_us), more)

    async def migrate(self, *, dry_run: bool = False) -> list[str]:
        links = pool(self._address)
        try:
            async with links.connection() as connection:
                if dry_run:
                    return [step.name for step in (await migrate.look(connection, self._address.name))[0].missing]
                return await migrate.migrate(connection, self._address.name)
        except FAILURES as error:
            raise translate(error, self._address.name) from error
        finally:
            await links.close()

    async def examine(self) -> list[Finding]:
        return await examining.examine(self._address, self._clock)


def _sending(values: Iterable[bytes | None]) -> float:
    """Say how many seconds it may take to send so much."""
    return sum(len(value) for value in values if value is not None) / _BYTES_A_SECOND


async def _pace(site: Site, rivals: Rivals) -> Pace:
    """Believe what was seen while a listener would have heard of news."""
    if not site.address.listen:
        return Pace(0.0, await in_turn(POLL_SECONDS, rivals))
    return Pace(TRUST_SECONDS if await site.listening() else 0.0, POLL_SECONDS)
