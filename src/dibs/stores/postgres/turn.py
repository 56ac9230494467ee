"""One connection for a while: what it is told about the time, and what is to be told once it has been committed."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from dibs.stores.postgres.errors import BROKEN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from dibs.stores.common.rows import Row
    from dibs.stores.postgres.link import Connection

Name = tuple[str, str]  # queue, task


class Turn:
    """A connection in the hands of one caller."""

    def __init__(self, connection: Connection, told: int | None) -> None:
        self.connection = connection
        self.told = told  # the time that a test tells; none: the database's own
        self.fetch: Callable[..., Awaitable[list[Row]]] = connection.fetch
        self.news: set[Name] = set()  # where jobs have become pending
        self.resumed = False  # whether a queue goes on that was paused
        self.wants_lease = False  # whether a claim that finds nothing shall ask when the first lease runs out
        self.first_lease: float | None = None  # in how many seconds that is
        self.returned: list[tuple[int, int]] = []  # lanes that jobs came back to, and when those are due

    def transaction(self, **options: Any) -> Any:
        """Begin a transaction, or a savepoint inside one."""
        return self.connection.transaction(**options)

    def snapshot(self) -> Any:
        """Begin a transaction whose statements all see the same."""
        return self.transaction(isolation="repeatable_read", readonly=True)


class OwnTurn(Turn):
    """The same on a connection of the store's own, which may be given up at any time."""

    def __init__(self, connection: Connection, told: int | None, seconds: float) -> None:
        super().__init__(connection, told)
        self.fetch = partial(connection.fetch, timeout=seconds)

    @asynccontextmanager
    async def transaction(self, **options: Any) -> AsyncIterator[None]:
        """Begin a transaction. If no one knows how the connection is, it is cut and not asked to roll back.

        To ask a server that has fallen silent would take as long again as it took to notice.
        """
        transaction = self.connection.transaction(**options)
        await transaction.start()
        try:
            yield
        except BaseException as error:
            if isinstance(error, BROKEN) or not isinstance(error, Exception):
                self.connection.terminate()
            elif not self.connection.is_closed():
                await transaction.rollback()
            raise
        await transaction.commit()
