"""The store's clock, and one transaction with the time it happens at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.domain.job import NEVER
from dibs.store import PAUSED
from dibs.stores.sqlite.rows import Lane
from dibs.stores.sqlite.statements import statement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from random import Random

    import apsw

    from dibs.clock import Clock
    from dibs.stores.sqlite.rows import Row

_CLOCK_READ = statement("clock_read")
_CLOCK_WRITE = statement("clock_write")
_LANE_READ = statement("lane_read")
_LANE_LOWER = statement("lane_lower")
_NAMES = statement("document_names")

PAUSED_END = PAUSED[:-1] + chr(ord(PAUSED[-1]) + 1)
"""The first name after all those that begin with ``PAUSED``."""


class StoreClock:
    """The time that all who use a file agree on: the machine's, but never before the last change that was written.

    Were the machine's clock set back, a job made before would otherwise be due only later, and one made after would
    overtake it. The time of the last change is kept in the file and nowhere else, so that a jump which one process
    alone saw, while it read, is forgotten (test_a_jump_that_one_process_saw_only_while_reading_is_forgotten).
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def read(self, connection: apsw.Connection) -> int:
        """Tell the time inside a transaction, which orders it."""
        row: Any = connection.execute(_CLOCK_READ).fetchone()
        return max(self._clock.now(), int(row[0]))

    def keep(self, moment: Moment) -> None:
        """Note the time of a transaction, before it is committed, if it has changed anything."""
        if moment.touched:
            moment.execute(_CLOCK_WRITE, (moment.now,))


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
        self,
        connection: apsw.Connection,
        now: int,
        known: dict[int, Lane],
        random: Random,
        places: dict[str, int] | None = None,
    ) -> None:
        self.connection = connection
        self.random = random
        self.execute: Callable[..., Any] = connection.execute
        self.executemany: Callable[..., Any] = connection.executemany
        self.now = now
        self.places = {} if places is None else places  # where jobs are that were claimed a while ago: id -> seq
        # Lanes found here are remembered only after a commit: a number that was rolled back is given away again.
        self.lanes = Lanes(connection, known)
        self.awaited: dict[tuple[str, str], int] = {}  # queue and task -> the earliest due time that has come in
        self.resumed = False
        self.touched = False  # whether a job or a document has changed
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
