"""Connections of one event loop: as many as are used at once, kept for the next, and given up at the first doubt.

asyncpg's own pool asks the server to reset every connection that is given back: a round trip for each call. Ours are
never left in a state that would need it: whatever did not end well is closed.
"""

from __future__ import annotations

import asyncio
import inspect
import socket
from collections import deque
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import asyncpg

from dibs.stores.postgres.errors import BROKEN, FAILURES, translate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dibs.stores.postgres.address import Address

# Plans are fixed, whatever the statistics say or do not say yet: a claim walks an index in its order, and joins by key.
# They are made once for each connection, and stay right as the tables grow.
PLANS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_sort": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_material": "off",
    "enable_memoize": "off",
    "random_page_cost": "0.01",  # looking up a few is never dearer than walking all, however few those seem to be
    "jit": "off",
}

# An idle connection that the network has forgotten is noticed by either end within about half a minute.
KEEP_ALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
SERVER_KEEP_ALIVE = {"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3"}

Connection = Any  # asyncpg's, or what looks like it


class Pool:
    """The connections of one event loop."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._free: list[Connection] = []
        self._used: set[Connection] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._open = 0

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Give a connection for a moment. An error, or a caller who gives up, costs it: no one inherits its state."""
        connection = await self._acquire()
        self._used.add(connection)
        try:
            yield connection
        except Exception as error:
            # If the server has answered, the connection is well, unless it is in the middle of something.
            if isinstance(error, BROKEN) or connection.is_closed() or connection.is_in_transaction():
                connection.terminate()
            if isinstance(error, TimeoutError):
                self._doubt()
            raise
        except BaseException:
            # Race: a query that was cancelled. Its rows would be read by whoever comes next
            # (test_a_cancelled_claim_leaves_nothing_behind).
            connection.terminate()
            raise
        finally:
            self._used.discard(connection)
            self._release(connection)

    async def _acquire(self) -> Connection:
        while True:
            while self._free:
                connection = self._free.pop()
                if not connection.is_closed():
                    return connection
                self._open -= 1
            if self._open < self._address.pool:
                break
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._wake()
                raise
            finally:
                with suppress(ValueError):
                    self._waiting.remove(turn)
        self._open += 1
        try:
            return await self.connect()
        except BaseException:
            self._open -= 1
            self._wake()
            raise

    def _release(self, connection: Connection) -> None:
        if connection.is_closed():
            self._open -= 1
        else:
            self._free.append(connection)
        self._wake()

    def _doubt(self) -> None:
        """Give up what is free, once a server has fallen silent: one call after another would find that out for itself.

        If it was only slow, that costs a few milliseconds.
        """
        for connection in self._free:
            connection.terminate()  # and is passed by when its turn comes

    def _wake(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    async def connect(self) -> Connection:
        """Open a connection that is not counted."""
        connecting = asyncpg.connect(
            self._address.dsn,
            timeout=self._address.timeout,
            command_timeout=self._address.timeout,
            statement_cache_size=200 if self._address.prepared else 0,
            server_settings={"application_name": "dibs", **(self._settings() if self._address.prepared else {})},
        )
        try:
            # In a task of its own: its time limit cancels the task that it runs in, and a batcher's cannot be cancelled
            # (test_a_server_that_does_not_answer_who_connects).
            connection = await asyncio.get_running_loop().create_task(connecting)
        except (*FAILURES, ValueError) as error:
            raise translate(error, self._address.name) from error
        _keep_alive(connection)
        return connection

    def _settings(self) -> dict[str, str]:
        """Fix the plans; and have the server end a transaction whose client was lost, and with it all that it holds."""
        patience = str(max(1, round(self._address.timeout * 1000)))
        return {**PLANS, **SERVER_KEEP_ALIVE, "idle_in_transaction_session_timeout": patience}

    async def close(self) -> None:
        """Close all that are free, and give up on those that are used."""
        free, self._free = self._free, []
        for connection in free:
            with suppress(*FAILURES):
                await connection.close(timeout=1.0)
        self.terminate()

    def terminate(self) -> None:
        """Cut all, without waiting: also for a loop that has ended."""
        for connection in [*self._free, *self._used]:
            with suppress(Exception):
                connection.terminate()
        self._free = []


def _keep_alive(connection: Connection) -> None:
    """Have the kernel ask after an idle connection. asyncpg has no way to say so but the transport that it uses."""
    found = connection._transport.get_extra_info("socket")  # noqa: SLF001
    if found is None or found.family == getattr(socket, "AF_UNIX", None):
        return
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        if hasattr(socket, name):  # not every system has them all
            found.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def is_asyncpg(connection: Any) -> bool:
    """Say whether a user's connection is asyncpg's, or a pool's stand-in for one."""
    return isinstance(connection, asyncpg.Connection) or (
        type(connection).__module__.startswith("asyncpg.")
        and inspect.iscoroutinefunction(getattr(connection, "fetch", None))
    )
