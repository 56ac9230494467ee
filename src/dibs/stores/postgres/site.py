"""What one event loop has of a store: its connections, its listener, and the hints that it sends."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from dibs.domain.errors import DibsError
from dibs.stores.common.sites import Resident
from dibs.stores.postgres import migrate
from dibs.stores.postgres.errors import FAILURES, translate
from dibs.stores.postgres.link import pool
from dibs.stores.postgres.statements import statement
from dibs.stores.postgres.turn import OwnTurn
from dibs.stores.postgres.wake import Listener

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from dibs.clock import Clock
    from dibs.stores.common.herald import Herald
    from dibs.stores.common.waiting import Waiting
    from dibs.stores.postgres.address import Address
    from dibs.stores.postgres.turn import Name, Turn

logger = logging.getLogger("dibs")

_NOTIFY = statement("notify")


class Time:
    """Where the time comes from: the database, or a clock that a test has put in its place."""

    def __init__(self, clock: Clock) -> None:
        from dibs.clock import Clock as Real

        self._clock = clock if type(clock).now is not Real.now else None

    def told(self) -> int | None:
        """Say what to tell the database; none: its own clock rules."""
        return None if self._clock is None else self._clock.now()


class Site(Resident):
    """One event loop's part of a store."""

    def __init__(self, address: Address, time: Time, waiting: Waiting, herald: Herald) -> None:
        super().__init__()
        self.address = address
        self.pool = pool(address, self._deafen)
        self.channel = ""  # as long as the schema has not been looked at
        self._time, self._waiting, self._herald = time, waiting, herald
        self._listener: Listener | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._beginning = asyncio.Lock()
        self.patient = asyncio.Semaphore(
            (address.pool + 1) // 2
        )  # who waits for users' transactions leaves some for others

    async def begin(self) -> None:
        """Connect, look at the schema, and see that the loop's end is ours too."""
        async with self._beginning:
            if self.channel:
                return
            async with self.turn(checked=False) as turn:
                schema, ahead = await migrate.check(turn.connection, self.address.name)
            if ahead:
                logger.info("%s: nothing in it is in the way", ahead)
            channel = "dibs_" + hashlib.sha256(schema.encode()).hexdigest()[:32]
            self._listener = Listener(self.address, channel, self._hear)
            await self.stay()
            self.channel = channel

    @asynccontextmanager
    async def turn(self, *, checked: bool = True, more: float = 0.0) -> AsyncIterator[Turn]:
        """Give a connection to one caller; what goes wrong with it is told in dibs's words.

        ``more`` are seconds that its statements may take beyond those that any may.
        """
        if checked and not self.channel:
            await self.begin()
        try:
            async with self.pool.connection() as connection:
                yield OwnTurn(connection, self._time.told(), self.address.timeout + more)
        except FAILURES as error:
            raise translate(error, self.address.name) from error

    # Hints

    def _deafen(self) -> None:
        """Listen anew: what has broken a connection may have left the listener's open, and dead."""
        if self._listener is not None:
            self._listener.terminate()

    def _hear(self, payload: str) -> None:
        elsewhere, names = self._herald.read(payload)
        if elsewhere:
            self._waiting.tell(names)

    async def listening(self) -> bool:
        """Say whether hints of other processes are heard on this loop."""
        if not self.channel:
            await self.begin()
        return self.address.listen and self._listener is not None and await self._listener.listening()

    async def tell(self, turn: Turn, news: Iterable[Name] | None) -> None:
        """Tell what this turn has committed: here at once; elsewhere too, or within a moment if that was just done.

        A hint. What was committed stays so, and is answered, whatever goes wrong here.
        """
        self._waiting.tell(news)
        payload, seconds = self._herald.pick(news)
        if payload is not None:
            try:
                await turn.fetch(_NOTIFY, self.channel, payload)
            except FAILURES as error:
                # Whoever comes next would wait for its answer before they are heard, without a limit of time
                # (test_a_hint_that_is_not_answered_costs_its_connection).
                turn.connection.terminate()
                logger.debug("could not tell other processes what has come in: %s", error)
        elif seconds is not None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._send_rest)

    def _send_rest(self) -> None:
        self._timer = None
        payload = self._herald.rest()
        if payload is not None and not self._closed:
            task = asyncio.get_running_loop().create_task(self._notify(payload))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _notify(self, payload: str) -> None:
        try:
            async with self.turn() as turn:
                await turn.fetch(_NOTIFY, self.channel, payload)
        except DibsError as error:
            logger.debug("could not tell other processes what has come in: %s", error)

    # The end

    async def let_go(self) -> None:
        """Send what is still to be sent, and let go of all connections."""
        if self._timer is not None:
            self._timer.cancel()
            self._send_rest()
        self._closed = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)
        if self._listener is not None:
            await self._listener.close()
        await self.pool.close()

    def terminate(self) -> None:
        """Cut all connections, without waiting."""
        if self._listener is not None:
            self._listener.terminate()
        self.pool.terminate()
