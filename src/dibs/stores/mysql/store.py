"""The MySQL and MariaDB store: the protocol, each method a few packets on the caller's own loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from dibs.clock import Clock as RealClock
from dibs.domain.errors import StoreUnavailable
from dibs.domain.job import Outcome
from dibs.store import Capabilities, Refusal, Written, alone
from dibs.stores.common import pruning
from dibs.stores.common.asking import BUSY_SECONDS, is_busy, until_free
from dibs.stores.common.leases import NoneLate
from dibs.stores.common.naming import Known, Overtaken, is_plain
from dibs.stores.common.places import Places
from dibs.stores.common.pool import Pool
from dibs.stores.common.restoring import whole
from dibs.stores.common.sites import Sites
from dibs.stores.common.waiting import Waiting
from dibs.stores.mysql import (
    address,
    claiming,
    examining,
    finding,
    inserting,
    looking,
    migrate,
    reading,
    registry,
    removing,
    restoring,
    theirs,
    writing,
)
from dibs.stores.mysql.counting import Counter
from dibs.stores.mysql.errors import (
    ALTERED,
    CHANGED,
    DEADLOCK,
    FAILURES,
    GONE,
    LOCK_WAIT,
    NOWAIT,
    TAKEN,
    code,
    translate,
)
from dibs.stores.mysql.link import Link
from dibs.stores.mysql.site import Site
from dibs.stores.mysql.turn import Turn
from dibs.stores.mysql.wake import Activity

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

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

_TRIES = {DEADLOCK: 20, CHANGED: 20, TAKEN: 20, ALTERED: 20, GONE: 3, LOCK_WAIT: 3, NOWAIT: 3}
"""How often something is tried that others were faster with. Nothing of it was written."""
_JITTER = 0.002  # seconds, times the number of the try
_PATIENCE = 30  # seconds that an enqueue waits for another's open transaction that may be about to use its name
_MIGRATE_SECONDS = 3600.0  # how long a statement of a migration may take


def from_url(url: str, clock: Clock) -> MysqlStore:
    """Make a store of ``mysql://user:password@host/database``; it connects when it is first used."""
    return MysqlStore(url, clock)


class MysqlStore:
    """Jobs in a MySQL or MariaDB database, durable when acknowledged, shared by any processes of any machines."""

    capabilities = Capabilities(durable=True, shared=True, transactions=True, migrates=True)

    def __init__(self, url: str, clock: Clock) -> None:
        self._address = address.read(url)
        self._clock = clock
        self._told = clock.now if type(clock).now is not RealClock.now else lambda: None
        self._waiting = Waiting(clock)
        self._activity = Activity(clock)
        self._places = Places(clock)
        self._counter = Counter(clock)
        self._lanes = Known(lambda missing: self._again(lambda turn: inserting.add_lanes(turn, missing)))
        self._none_late = NoneLate()
        self._sites = Sites(self._address.name, lambda: Site(self._address, self._told))

    # Life

    async def open(self) -> None:
        await self._again(reading.now)

    async def close(self) -> None:
        await self._sites.close(lambda: self._waiting.tell(None))

    async def _run(self, run: Callable[[Turn], Awaitable[T]]) -> T:
        """Run on a connection of this loop; what becomes pending is told after it has been committed."""
        async with self._sites.here().turn() as turn:
            answer = await run(turn)
        if turn.returned:
            self._places.returned(turn.returned)
        if turn.news or turn.resumed:
            self._activity.noted()
            self._waiting.tell(None if turn.resumed else turn.news)
        return answer

    async def _again(self, run: Callable[[Turn], Awaitable[T]]) -> T:
        """Run; once more if others were faster. Nothing of it was written then."""
        tried: dict[int, int] = {}
        while True:
            try:
                return await self._run(run)
            except StoreUnavailable as error:
                await self._pause(error, tried)

    async def _pause(self, error: StoreUnavailable, tried: dict[int, int]) -> None:
        """Wait a little before the next try; raise the error if there is to be none."""
        number = code(error.__cause__)
        tried[number] = tried.get(number, 0) + 1
        if tried[number] >= _TRIES.get(number, 0):
            raise error
        await asyncio.sleep(self._clock.random.uniform(0, _JITTER * sum(tried.values())))

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
                return [await self._insert_group(groups[0], _PATIENCE)]
        answers: list[list[Job] | Refusal] = []
        for group in groups:
            try:
                answers.append(await self._insert_group(group, 0))
            except StoreUnavailable as error:
                if code(error.__cause__) not in _TRIES:
                    raise
                answers.append(Refusal(0, "id", group[0].job(0), busy=True))
        return answers

    async def _insert_plain(self, groups: Sequence[Sequence[Draft]]) -> list[list[Job]]:
        """Insert all at once; ``Overtaken`` if anything stands in the way, and each group is to go its own."""
        lanes = await self._lanes.of(groups)
        try:
            return await self._run(lambda turn: inserting.insert_plain(turn, groups, lanes))
        except StoreUnavailable as error:
            if code(error.__cause__) in _TRIES:
                raise Overtaken from error
            raise
        except Overtaken:
            self._lanes.forget()
            raise

    async def _insert_group(self, group: Sequence[Draft], patience: int) -> list[Job] | Refusal:
        """Insert one group. It waits for others' names in short steps, so that a server's silence is told from that."""
        tried: dict[int, int] = {}
        end = time.monotonic() + patience
        while True:
            lanes = await self._lanes.of([group])
            try:
                return await self._run(lambda turn: inserting.insert_group(turn, group, lanes, min(patience, 1)))  # noqa: B023
            except Overtaken:
                self._lanes.forget()
            except StoreUnavailable as error:
                if code(error.__cause__) != LOCK_WAIT:
                    await self._pause(error, tried)
                elif time.monotonic() >= end:
                    raise

    async def _insert_on(self, connection: Any, group: Sequence[Draft]) -> list[Job] | Refusal:
        """Insert in a user's transaction. What it cannot see, as its snapshot is older, we look for ourselves."""
        known: inserting.Found = []
        tried: dict[int, int] = {}
        while True:
            lanes = await self._lanes.of([group])
            turn = theirs.turn(connection, self._told())
            try:
                return await inserting.insert_group(turn, group, lanes, _PATIENCE, known)
            except Overtaken:
                self._lanes.forget()
            except theirs.failures(connection) as error:
                failed = translate(error, self._address.name)
                if code(error) != TAKEN or not isinstance(failed, StoreUnavailable):
                    raise failed from error
                failed.__cause__ = error
                await self._pause(failed, tried)
                known = await self._again(lambda turn: inserting.find_named(turn, group))

    # Claim, extend, write

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[list[Job]]:
        began = time.monotonic()
        claimed: list[list[Job]] = [[] for _ in requests]
        try:
            await self._again(lambda turn: claiming.claim(turn, requests, self._places, self._clock.random, claimed))
        except StoreUnavailable:
            if not any(claimed):  # what was leased is theirs, though there may have been more
                raise
        if any(claimed):
            self._activity.noted()
            self._none_late.claimed(began, (job for jobs in claimed for job in jobs))
        return claimed

    async def extend(self, extensions: Sequence[Extension]) -> list[Outcome]:
        return await until_free(
            extensions,
            [extension.ref.id for extension in extensions],
            self._extend_round,
            lambda outcome: outcome is Outcome.BUSY,
            BUSY_SECONDS[:5],
        )

    async def _extend_round(self, extensions: Sequence[Extension]) -> list[Outcome]:
        try:
            return await self._again(lambda turn: writing.extend(turn, extensions))
        except StoreUnavailable as error:
            if code(error.__cause__) not in _TRIES:
                raise
            return [Outcome.BUSY] * len(extensions)

    async def write(self, writes: Sequence[Write], *, connection: Any = None) -> list[Written]:
        if connection is not None:
            return await self._write_on(connection, writes)
        return await until_free(writes, [write.id for write in writes], self._write_round, is_busy)

    async def _write_round(self, writes: Sequence[Write]) -> list[Written]:
        # Race: completed, and redriven by someone else before the rest is tried again. To ask for it once more would be
        # to be told that it is lost (test_what_was_completed_is_not_asked_for_again).
        done: set[str] = set()
        try:
            return await self._again(lambda turn: writing.write(turn, writes, done))
        except StoreUnavailable as error:
            if code(error.__cause__) not in _TRIES:
                raise
            if len(writes) == 1:  # its unique key, or its tombstone, is in another's open transaction
                return [Written(Outcome.BUSY, None)]
        return [writing.COMPLETED if write.id in done else (await self._write_round([write]))[0] for write in writes]

    async def _write_on(self, connection: Any, writes: Sequence[Write]) -> list[Written]:
        turn = theirs.turn(connection, self._told())
        try:
            ids = [write.id for write in writes]
            answers = await until_free(writes, ids, lambda some: writing.write(turn, some, set()), is_busy, ())
        except theirs.failures(connection) as error:
            raise translate(error, self._address.name) from error
        self._places.returned(turn.returned)
        return answers

    async def restore(self, items: Sequence[tuple[Job, Sequence[Event]]]) -> list[Job | None]:
        wholes = whole(items)
        tried: dict[int, int] = {}
        while wholes:
            lanes = await self._lanes.of([[item.job for item in wholes]])
            try:
                return await self._run(lambda turn: restoring.restore(turn, wholes, lanes))  # noqa: B023 - awaited before the next
            except Overtaken:
                self._lanes.forget()
            except StoreUnavailable as error:
                await self._pause(error, tried)
        return []

    # Maintenance

    async def expired(self, limit: int) -> list[Job]:
        """List claimed jobs whose lease has run out. Many who look in vain at once ask the database once."""
        if self._none_late.holds():
            return []
        # Not when the answer has come, for that is said of an earlier moment
        # (test_a_lease_is_late_by_the_time_that_was_asked_about).
        began = time.monotonic()
        found, seconds = await self._again(lambda turn: reading.expired(turn, limit))
        if not found and self._told() is None:
            self._none_late.believe(began, seconds)
        return found

    async def prune(self, limit: int) -> int:
        return await pruning.prune(
            limit,
            lambda some: self._again(lambda turn: removing.prune(turn, some)),
            lambda some: self._again(lambda turn: removing.sweep(turn, some)),
            lambda after, some: self._again(lambda turn: removing.remove_lanes(turn, after, some)),
        )

    async def wait(self, request: ClaimRequest, timeout: float, rivals: Rivals = alone, /) -> frozenset[str] | None:
        """Return soon after a job has come: at once from this process, within a second from another.

        In a crowd it may take longer, as any of the others may be the one to find it.
        """
        return await self._waiting.wait(
            request,
            timeout,
            lambda _: self._again(lambda turn: looking.peek(turn, request, self._places)),
            lambda: self._activity.pace(rivals),
        )

    # Reading

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        return await self._again(lambda turn: reading.get(turn, ids))

    async def find(self, query: Query) -> tuple[list[Job], int | None]:
        return await self._again(lambda turn: finding.find(turn, query))

    async def log(self, id: str) -> list[Event]:
        return await self._again(lambda turn: reading.log(turn, id))

    async def audit(self, cursor: str | None, limit: int) -> Audit:
        return await self._again(lambda turn: reading.audit(turn, cursor, limit))

    async def counts(self, queue: str | None = None) -> Counts:
        return await self._again(lambda turn: self._counter.counts(turn, queue))

    async def queues(self) -> list[QueueInfo]:
        return await self._again(self._counter.queues)

    async def read(self, name: str) -> Document | None:
        return await self._again(lambda turn: registry.read(turn, name))

    async def documents(self, prefix: str) -> list[Document]:
        return await self._again(lambda turn: registry.documents(turn, prefix))

    async def put(
        self, name: str, value: bytes | None, *, expect: int | None = None, keep_us: int | None = None
    ) -> Document | None:
        return await self._again(lambda turn: registry.put(turn, name, value, expect, keep_us))

    async def migrate(self, *, dry_run: bool = False) -> list[str]:
        patient = self._address._replace(timeout=_MIGRATE_SECONDS)
        pool: Pool[Link] = Pool(lambda: Link.connect(patient), 1)
        try:
            async with pool.connection() as link:
                turn = Turn(link, None)
                if dry_run:
                    return [step.name for step in (await migrate.look(turn, self._address.name)).missing]
                return await migrate.migrate(turn, self._address.name)
        except FAILURES as error:
            raise translate(error, self._address.name) from error
        finally:
            await pool.close()

    async def examine(self) -> list[Finding]:
        return await examining.examine(self._address, self._clock)
