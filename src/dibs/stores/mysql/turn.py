"""One connection for a while: what it is told about the time, its transaction, and what to tell after the commit."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

from dibs.stores.mysql.errors import FAILURES
from dibs.stores.mysql.literals import Step, step
from dibs.stores.mysql.statements import statement

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from dibs.stores.common.rows import Row
    from dibs.stores.common.waiting import Name

_CLOCK = statement("write_clock")

_BEGIN = "START TRANSACTION"
_COMMIT = "COMMIT"
_ROLLBACK = "ROLLBACK"
_PATIENCE = "SET SESSION innodb_lock_wait_timeout = %s"
_SNAPSHOT = ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION READ ONLY")


class Line(Protocol):
    """What statements are sent over."""

    slot: int

    @property
    def shortest(self) -> int:
        """The shortest time that it can wait for a lock, in seconds."""
        ...

    async def send(self, statements: Sequence[str], more: float = 0.0) -> list[list[Row]]:
        """Send statements, and read all answers; they may wait for more seconds than usual."""
        ...


class Turn:
    """A connection in the hands of one caller. Its transaction begins with the first packet and ends with the last."""

    sees_the_present = True  # whether a read that locks nothing shows what is committed now
    begins: Sequence[str] = (_BEGIN,)
    commits: Sequence[str] = (_COMMIT,)
    rolls_back: Sequence[str] = (_ROLLBACK, step(_PATIENCE, 1).text)

    def __init__(self, line: Line, told: int | None) -> None:
        self.line = line
        self.told = told  # the time that a test tells; none: the server's own
        self.news: set[Name] = set()  # where jobs have become pending
        self.resumed = False  # whether a queue goes on that was paused
        self.returned: list[tuple[int, int]] = []  # lanes that jobs came back to, and when those are due
        self._more = 0.0  # seconds that the statements to come may wait for locks
        self._unsent: Sequence[str] = ()
        self._open = False

    async def fetch(self, sql: str, *bindings: Any) -> list[Row]:
        """Ask one thing."""
        return (await self.run(Step(sql, bindings)))[0]

    async def run(self, *steps: Step) -> list[list[Row]]:
        """Ask several things at once."""
        before, self._unsent = self._unsent, ()
        answers = await self.line.send([*before, *(each.text for each in steps)], self._more)
        return answers[len(before) :]

    def clock(self, now: int) -> list[Step]:
        """Say what notes the time of a change."""
        return [step(_CLOCK, now, self.line.slot)]

    def patiently(self, seconds: int, steps: Sequence[Step]) -> list[Step]:
        """Let some statements wait for locks that long; all others wait for a second."""
        seconds = max(seconds, self.line.shortest)
        self._more = float(seconds)
        return [step(_PATIENCE, seconds), *steps, step(_PATIENCE, 1)]

    @asynccontextmanager
    async def transaction(self, begins: Sequence[str] | None = None) -> AsyncIterator[None]:
        """Begin with the next packet; unless ``commit`` is called, nothing of it happens."""
        self._unsent, self._open = self.begins if begins is None else begins, True
        try:
            yield
        except Exception:
            # The server has ended it, or is asked to. What it does not answer to, the pool cuts.
            with suppress(*FAILURES):
                await self._roll_back()
            raise
        else:
            await self._roll_back()
        finally:
            self._unsent, self._open = (), False

    async def _roll_back(self) -> None:
        if self._open and not self._unsent:
            self._open = False
            await self.line.send(self.rolls_back)

    async def commit(self, *steps: Step, now: int | None = None) -> list[list[Row]]:
        """Do the last things of a transaction, note the time of the change, and end it."""
        before, self._unsent = self._unsent, ()
        last = [] if now is None else self.clock(now)
        texts = [*before, *(each.text for each in (*steps, *last)), *self.commits]
        answers = await self.line.send(texts, self._more)
        self._open = False
        return answers[len(before) : len(before) + len(steps)]

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[None]:
        """Begin a transaction whose statements all see the same."""
        async with self.transaction(_SNAPSHOT):
            yield
