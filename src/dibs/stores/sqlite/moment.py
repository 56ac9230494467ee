"""The store's clock, and one transaction with the time it happens at."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from dibs.domain.job import NEVER
from dibs.domain.retry import SECOND
from dibs.store import PAUSED
from dibs.stores.sqlite.rows import Lane
from dibs.stores.sqlite.statements import statement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from random import Random

    import apsw

    from dibs.clock import Clock
    from dibs.stores.sqlite.recent import Recent
    from dibs.stores.sqlite.rows import Row

_CLOCK_READ = statement("clock_read")
_CLOCK_WRITE = statement("clock_write")
_LANE_READ = statement("lane_read")
_LANE_LOWER = statement("lane_lower")
_NAMES = statement("document_names")

_MARK_EVERY = SECOND // 2  # by how much the mark in the file may lag behind what was written
_TRUST = SECOND  # how far ahead of that mark a process believes its own memory; more than _MARK_EVERY

PAUSED_END = PAUSED[:-1] + chr(ord(PAUSED[-1]) + 1)
"""The first name after all those that begin with ``PAUSED``."""


class StoreClock:
    """The time that all of a file's users agree on well enough: it never runs backwards.

    It is the machine's, but never less than the mark in the file, nor than when the newest job was made: were the
    machine's clock set back, a job made before would otherwise be due only later, and one made after would overtake it.
    The mark is written seldom, so a process also remembers what it has used. Once others use the file too, it believes
    that only a little beyond the mark: a jump of its clock that it alone saw, while it read, would make it reap what
    they hold (test_a_jump_that_one_process_saw_only_while_reading_is_forgotten).
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._used = 0
        self._mark = 0  # the highest that this process has written
        self._version: int | None = None  # SQLite's number, as long as no one else has committed; none: someone has

    def made_file(self, version: int) -> None:
        """No one but this process can have used the file, as of SQLite's ``data_version``."""
        self._version, self._mark = version, 0

    def opened_file(self) -> None:
        """Others may have used it."""
        self._version, self._mark = None, 0

    def read(self, connection: apsw.Connection) -> int:
        """Tell the time inside a transaction, which orders it."""
        return self._read(connection)[0]

    def write(self, connection: apsw.Connection, *, own: bool) -> int:
        """Tell the time inside a write transaction, on the process's own writing connection or on another."""
        if self._version is not None and not (own and data_version(connection) == self._version):
            self._version = None
        now, high = self._read(connection)
        if now > high + _MARK_EVERY:
            connection.execute(_CLOCK_WRITE, (now,))
            self._mark = now
        return now

    def _read(self, connection: apsw.Connection) -> tuple[int, int]:
        row: Any = connection.execute(_CLOCK_READ).fetchone()
        high, newest = row
        with self._lock:
            if high > self._mark:
                self._version = None  # someone else's
            believed = self._used if self._version is not None else min(self._used, high + _TRUST)
            self._used = max(self._clock.now(), newest or 0, high, believed)
            return self._used, high


def data_version(connection: apsw.Connection) -> int:
    """Give SQLite's number that changes when any other connection commits, and not when this one does."""
    version: Any = connection.execute("PRAGMA data_version").fetchone()
    return int(version[0])


class Lanes(dict[int, Lane]):
    """Lanes by number, as one transaction sees them: those that the process knows, and those that it finds."""

    def __init__(self, connection: apsw.Connection, known: dict[int, Lane]) -> None:
        super().__init__()
        self._connection, self._known = connection, known

    def __missing__(self, id: int) -> Lane:
        lane = self._known.get(id)
        if lane is None:
            [row] = self._connection.execute(_LANE_READ, (id,)).fetchall()
            lane = Lane._make(row)
        self[id] = lane
        return lane


class Moment:
    """One transaction: its connection, its time, and what is to be told once it has been committed."""

    def __init__(
        self, connection: apsw.Connection, now: int, known: dict[int, Lane], random: Random, recent: Recent
    ) -> None:
        self.connection = connection
        self.random = random
        self.recent = recent
        self.execute: Callable[..., Any] = connection.execute
        self.executemany: Callable[..., Any] = connection.executemany
        self.now = now
        # Lanes found here are remembered only after a commit: a number that was rolled back is given away again.
        self.lanes = Lanes(connection, known)
        self.awaited: dict[tuple[str, str], int] = {}  # queue and task -> the earliest due time that has come in
        self.resumed = False
        self._paused: frozenset[str] | None = None

    def rows(self, sql: str, *bindings: object) -> list[Row]:
        """Run a statement that has not many rows."""
        found: list[Row] = self.execute(sql, bindings).fetchall()
        return found

    @property
    def paused(self) -> frozenset[str]:
        """The queues that hand out nothing."""
        if self._paused is None:
            names = self.rows(_NAMES, PAUSED, PAUSED_END, self.now)
            self._paused = frozenset(name[len(PAUSED) :] for (name,) in names)
        return self._paused

    def forget_paused(self) -> None:
        """Look again: a queue was paused or resumed."""
        self._paused = None

    def lower(self, dues: Iterable[tuple[int, int]]) -> None:
        """Note that jobs have become pending: for each lane the time, so that claims and waiters see them."""
        earliest: dict[int, int] = {}
        for lane_id, due in dues:
            if due < earliest.get(lane_id, NEVER):
                earliest[lane_id] = due
        for lane_id, due in earliest.items():
            self.execute(_LANE_LOWER, (lane_id, due))
            self.announce(self.lanes[lane_id], due)

    def announce(self, lane: Lane, due: int) -> None:
        """Tell those who wait, after the commit."""
        key = (lane.queue, lane.task)
        self.awaited[key] = min(due, self.awaited.get(key, NEVER))
