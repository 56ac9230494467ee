"""The engine: transactions on the file, merged where callers meet, with the store's clock; and the news of a commit.

========  ============================================================================================================
Link      one connection to the file, opened when needed and again when lost; the engine has four
Desk      a thread that does what is left with it on one link: the writer, the reader of short things, that of long ones
Work      what one caller left at a desk, and where its answer goes
Moment    one transaction as those who run in it see it: connection, time, lanes, and the news to tell after the commit
Later     an answer of which only the making is left, which is done in its caller's thread
Waiting   those who wait for a job, and the watcher, whose link is the fourth, which hears of other processes' commits
========  ============================================================================================================
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import apsw

from dibs.domain.errors import NotSupported, StoreUnavailable
from dibs.stores.sqlite import forks, migrate
from dibs.stores.sqlite.connection import Link
from dibs.stores.sqlite.desk import Desk, Later, Work, prepare
from dibs.stores.sqlite.errors import translate
from dibs.stores.sqlite.moment import Moment, StoreClock
from dibs.stores.sqlite.wake import Waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.clock import Clock
    from dibs.domain.job import ClaimRequest
    from dibs.stores.sqlite.rows import Lane

T = TypeVar("T")

logger = logging.getLogger("dibs")

_MOST_PLACES = 50_000  # likewise, of claimed jobs
_MOST_LANES = 50_000  # that a process remembers; the others it looks up


class Engine:
    """One file, as one process uses it."""

    def __init__(self, path: str, clock: Clock) -> None:
        self.path = path
        self._clock = clock
        self._time = StoreClock(clock)
        self._lanes: dict[int, Lane] = {}
        self._places: dict[str, int] = {}
        self._pid = os.getpid()
        self._writer_link = Link(path, clock.random, writes=True)
        self._reader_link = Link(path, clock.random, writes=False)
        self._scanner_link = Link(path, clock.random, writes=False)
        self._writer = Desk("dibs-sqlite-writer", self._writer_link, clock, self._serve_writes)
        self._reader = Desk("dibs-sqlite-reader", self._reader_link, clock, self._serve_reads(self._reader_link))
        self._scanner = Desk("dibs-sqlite-scanner", self._scanner_link, clock, self._serve_reads(self._scanner_link))
        watcher_link = Link(path, clock.random, writes=False)
        self._waiting = Waiting(clock, watcher_link, self._snapshot)
        self._links = [self._writer_link, self._reader_link, self._scanner_link, watcher_link]
        self._migrated = 0  # which opening of the writer's connection has been looked after

    # Life

    async def open(self) -> None:
        """Connect and migrate."""
        self._check()
        for desk in (self._writer, self._reader, self._scanner):
            desk.reopen()
        forks.register(self._links)
        await self._writer.ask(lambda _: None)

    async def close(self) -> None:
        """Finish, and let go of all connections. A process that was forked off has none to let go of."""
        if self._pid != os.getpid():
            return
        for desk in (self._writer, self._reader, self._scanner):
            await desk.close()
        await self._waiting.close()
        forks.forget(self._links)

    def _check(self) -> None:
        if self._pid != os.getpid():
            raise StoreUnavailable(
                f"{self.path} was opened before this process was forked off",
                hint="Open a store of its own in each process.",
            )

    # Transactions

    async def write(self, run: Callable[[Moment], T | Later[T]]) -> T:
        """Run in a write transaction, durable once it is answered."""
        self._check()
        return await self._writer.ask(run)

    async def read(self, run: Callable[[Moment], T]) -> T:
        """Run a short read, in one snapshot."""
        self._check()
        return await self._reader.ask(run)

    async def scan(self, run: Callable[[Moment], T]) -> T:
        """Run a read that may take long, where no short one waits behind it."""
        self._check()
        return await self._scanner.ask(run)

    async def wait(self, request: ClaimRequest, timeout: float) -> None:
        """Return once the request may find something, or after so many seconds."""
        self._check()
        await self._waiting.wait(request, timeout, self.read)

    def run_on(self, connection: Any, run: Callable[[Moment], T | Later[T]]) -> T:
        """Run inside a transaction that the user has begun on a connection of their own; it is theirs to commit."""
        self._check()
        self._refuse_unfit(connection)
        tracers = connection.row_trace, connection.exec_trace
        connection.row_trace = connection.exec_trace = None  # they would make other things of our rows
        try:
            connection.execute("SAVEPOINT dibs")
            try:
                # What it finds out about lanes is not remembered: the user may roll back.
                moment = self._moment(connection, self._time.read(connection))
                result = run(moment)
                self._time.keep(moment)
            except BaseException:
                with suppress(apsw.Error):  # a full disk, for one, has rolled back everything already
                    connection.execute("ROLLBACK TO dibs; RELEASE dibs")
                raise
            connection.execute("RELEASE dibs")
        except apsw.Error as error:
            raise translate(error, self.path) from error
        finally:
            connection.row_trace, connection.exec_trace = tracers
        self._tell(moment)  # early, and only a hint: the watcher sees the commit itself
        return result.get() if isinstance(result, Later) else result

    def _refuse_unfit(self, connection: Any) -> None:
        if not isinstance(connection, apsw.Connection) or getattr(connection, "is_async", False):
            raise NotSupported(
                f"connection: {type(connection).__module__}.{type(connection).__qualname__} cannot be used here",
                hint="Give an apsw.Connection to the same file; the standard library's would break its locks.",
            )
        if not connection.in_transaction:
            raise NotSupported("connection: no transaction has been begun on it", hint="Execute BEGIN IMMEDIATE first.")
        with suppress(OSError):
            if Path(connection.filename).samefile(self.path):
                return
        raise NotSupported(f"connection: it is to another file than {self.path}", hint="Connect to that file.")

    # In the threads

    def _moment(self, connection: apsw.Connection, now: int, places: dict[str, int] | None = None) -> Moment:
        return Moment(connection, now, self._lanes, self._clock.random, places)

    def _serve_writes(self, todo: list[Work[Any]]) -> None:
        """Do all in one transaction; if that fails, each in its own, so that an error reaches only its cause."""
        try:
            connection = self._begin()
        except (apsw.Error, StoreUnavailable) as error:
            for work in todo:
                work.error = self._failure(error)
            return
        try:
            moment = self._commit(connection, todo)
        except Exception as error:  # noqa: BLE001  # whatever it is, it belongs to one of the callers
            if len(todo) == 1:
                todo[0].error = self._failure(error)
            else:
                for work in todo:
                    self._serve_writes([work])
        else:
            self._remember(moment)
            self._tell(moment)

    def _begin(self) -> apsw.Connection:
        connection = self._writer_link.connection()
        if self._migrated != self._writer_link.opened:
            self._places.clear()
            self._lanes.clear()  # another file may have taken the place of the one we knew
            migrate.migrate(connection, self.path, self._clock.now())
            self._migrated = self._writer_link.opened
        connection.execute("BEGIN IMMEDIATE")
        return connection

    def _commit(self, connection: apsw.Connection, todo: list[Work[Any]]) -> Moment:
        """Do all and commit it, which is the last thing here: after it, nothing may be undone or done again."""
        try:
            moment = self._moment(connection, self._time.read(connection), self._places)
            for work in todo:
                work.result = work.run(moment)
            prepare(todo)
            self._time.keep(moment)
            connection.execute("COMMIT")
        except BaseException:
            self._roll_back(connection)
            raise
        return moment

    def _remember(self, moment: Moment) -> None:
        if len(self._lanes) > _MOST_LANES:
            self._lanes.clear()
        self._lanes.update(moment.lanes)
        if len(self._places) > _MOST_PLACES:
            self._places.clear()

    def _tell(self, moment: Moment) -> None:
        """Wake those who wait. It is a hint; what was committed stays so, and is answered, whatever goes wrong here."""
        try:
            self._waiting.announce(moment)
        except Exception:
            logger.exception("could not wake those who wait for a job")

    def _roll_back(self, connection: apsw.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except apsw.Error:
            self._writer_link.drop()

    def _failure(self, error: Exception) -> Exception:
        return self._writer_link.failure(error) if isinstance(error, apsw.Error) else error

    def _serve_reads(self, link: Link) -> Callable[[list[Work[Any]]], None]:
        def serve(todo: list[Work[Any]]) -> None:
            for work in todo:
                try:
                    work.result = self._snapshot(link, work.run)
                except Exception as error:  # noqa: BLE001  # it is its caller's, and reaches it
                    work.error = error

        return serve

    def _snapshot(self, link: Link, run: Callable[[Moment], T]) -> T:
        try:
            connection = link.connection()
            connection.execute("BEGIN")
            try:
                return run(self._moment(connection, self._time.read(connection)))
            finally:
                connection.execute("COMMIT")
        except apsw.Error as error:
            raise link.failure(error) from error

    async def migrate(self, *, dry_run: bool) -> list[str]:
        """Bring the schema up to date; it is whenever the file is opened, so there is seldom anything left to do."""
        todo = await asyncio.to_thread(self._missing) if self._clock.threads else self._missing()
        if not dry_run:
            await self.open()
        return todo

    def _missing(self) -> list[str]:
        if not Path(self.path).exists():
            return [step.name for step in migrate.steps()]
        link = Link(self.path, self._clock.random, writes=False)
        try:
            return [step.name for step in migrate.look(link.connection(), self.path).missing]
        except apsw.Error as error:
            raise link.failure(error) from error
        finally:
            link.drop()
