"""One connection for a while: what it is told about the time, and what is to be told once it has been committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from dibs.stores.postgres.pool import Connection
    from dibs.stores.postgres.rows import Row

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
        return self.connection.transaction(isolation="repeatable_read", readonly=True)
