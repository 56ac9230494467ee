"""One connection of our own: how it is set up, and when it is of no use any more.

asyncpg's own pool asks the server to reset every connection that is given back: a round trip for each call. Ours are
never left in a state that would need it: whatever did not end well is closed.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import asyncpg

from dibs.stores.common.pool import Pool
from dibs.stores.postgres.errors import BROKEN, FAILURES, translate
from dibs.stores.postgres.statements import statement

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.stores.postgres.address import Address

logger = logging.getLogger("dibs")

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

# Arrays that statements use, by number and that of what is in them. PostgreSQL never changes these, but asyncpg would
# ask for them on each connection, by a query that costs the server more than all the rest of connecting.
ARRAYS = {1001: ("bytea", 17), 1007: ("int4", 23), 1016: ("int8", 20), 1022: ("float8", 701)}
_UNUSED = dict.fromkeys(("range_subtype", "attrtypoids", "basetype"))
_TYPES = [
    {"oid": oid, "ns": "pg_catalog", "name": f"_{name}", "elemtype": element, "elemdelim": ",", "kind": b"b", **_UNUSED}
    for oid, (name, element) in ARRAYS.items()
]

_END_LOST = statement("end_lost")

Connection = Any  # asyncpg's, or what looks like it


class Link(asyncpg.Connection):  # type: ignore[misc]
    """A connection to the server."""

    lost: set[int] | None = None
    """Where it leaves its number at the server, if it is given up in the middle of a transaction."""

    def is_sound(self, error: Exception) -> bool:
        """Say whether it is well though something failed: the server has answered, and nothing is half done."""
        return not (isinstance(error, BROKEN) or self.is_closed() or self.is_in_transaction())

    def terminate(self) -> None:
        """Cut it. The server may not notice, and keep what its transaction has locked."""
        if self.lost is not None and self._protocol is not None and self.is_in_transaction():
            self.lost.add(self.get_server_pid())
        super().terminate()

    async def close(self, *, timeout: float | None = 1.0) -> None:
        """Say goodbye, and do not wait long for an answer."""
        with suppress(*FAILURES):
            await super().close(timeout=timeout)


async def connect(address: Address, lost: set[int] | None = None) -> Link:
    """Open a connection, and set it up; have the server end those that were ``lost``."""
    # In a task of its own: its time limit cancels the task that it runs in, and a batcher's cannot be cancelled
    # (test_a_server_that_does_not_answer_who_connects).
    task: asyncio.Task[Link] = asyncio.get_running_loop().create_task(_connect(address, lost))
    try:
        return await task
    except (*FAILURES, ValueError) as error:
        raise translate(error, address.name) from error
    except asyncio.CancelledError:
        # Race: connected in this very turn of the loop, and given up by the caller
        # (test_a_connection_that_is_given_up_half_way_is_closed).
        task.add_done_callback(_drop)
        raise


async def _connect(address: Address, lost: set[int] | None) -> Link:
    link: Link = await asyncpg.connect(
        address.dsn,
        timeout=address.timeout,
        command_timeout=address.timeout,
        statement_cache_size=200 if address.prepared else 0,
        server_settings={"application_name": "dibs", **(_settings(address) if address.prepared else {})},
        connection_class=Link,
    )
    _keep_alive(link)
    link.get_settings().register_data_types(_TYPES)
    link.lost = lost
    if lost:
        await _end(link, lost)
    return link


async def _end(link: Link, lost: set[int]) -> None:
    """Have the server end what it may still take for alive.

    It ends what is idle by itself, but not a client that was lost between the two halves of a statement: to the server
    that one is at work (test_who_falls_silent_in_the_middle_of_a_statement_does_not_keep_its_rows).
    """
    numbers = list(lost)
    try:
        await link.fetch(_END_LOST, numbers)
    except asyncpg.PostgresError as error:  # it may not: then they are left to TCP
        logger.debug("could not end connections that were lost: %s", error)
    except BaseException:
        link.terminate()
        raise
    lost.difference_update(numbers)


def _drop(task: asyncio.Task[Link]) -> None:
    """Cut what no one waits for any more."""
    if not task.cancelled() and task.exception() is None:
        task.result().terminate()


def pool(address: Address, broken: Callable[[], None] = lambda: None) -> Pool[Link]:
    """Make what keeps the connections of one event loop."""
    lost: set[int] = set()
    return Pool(lambda: connect(address, lost), address.pool, broken)


def _settings(address: Address) -> dict[str, str]:
    """Fix the plans; and have the server end a transaction whose client was lost, and with it all that it holds."""
    patience = str(max(1, round(address.timeout * 1000)))
    return {**PLANS, **SERVER_KEEP_ALIVE, "idle_in_transaction_session_timeout": patience}


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
