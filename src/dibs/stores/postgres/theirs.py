"""A user's own connection, inside a transaction that is theirs to commit: asyncpg's, or psycopg's of either kind.

SQLAlchemy's connections and sessions are asked for the driver's below. It is known by the names of its classes, and
never imported here.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from dibs.domain.errors import NotSupported, StoreUnavailable
from dibs.stores.postgres.errors import FAILURES
from dibs.stores.postgres.link import is_asyncpg
from dibs.stores.postgres.statements import statement
from dibs.stores.postgres.turn import Turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dibs.stores.common.rows import Row

_ABORT = statement("write_abort")
_NOTIFY = statement("notify")

_BEGIN = "SELECT 1"
_PATIENCE_READ = "SELECT current_setting('lock_timeout')"
_PATIENCE_WRITE = "SELECT set_config('lock_timeout', $1, true)"
_UNIQUE_VIOLATION = "23505"
_SQLALCHEMY = frozenset({"AsyncConnection", "AsyncSession", "Connection", "Session"})


async def driver(connection: Any) -> Any:
    """Give the driver's connection, with the transaction begun, where a user gave SQLAlchemy's; else what they gave."""
    kind = _sqlalchemy(connection)
    if kind is None:
        return connection
    try:
        if kind == "AsyncSession":
            connection = await connection.connection()
        elif kind == "Session":
            connection = connection.connection()
        # SQLAlchemy begins a transaction with the first statement, and tells the driver no sooner.
        if kind.startswith("Async"):
            await connection.exec_driver_sql(_BEGIN)
            return (await connection.get_raw_connection()).driver_connection
        connection.exec_driver_sql(_BEGIN)
        return connection.connection.driver_connection
    except Exception as error:
        told = f"connection: {type(error).__name__}: {error}"
        raise StoreUnavailable(told, hint="Roll back, then try again.") from error


def _sqlalchemy(connection: Any) -> str | None:
    """Say which of SQLAlchemy's classes it is, or inherits from."""
    for each in type(connection).__mro__:
        if each.__module__.split(".")[0] == "sqlalchemy" and each.__name__ in _SQLALCHEMY:
            return each.__name__
    return None


def turn(connection: Any, told: int | None) -> Turn:
    """Make a turn of a user's connection; refuse one that cannot be used."""
    if is_asyncpg(connection):
        if not connection.is_in_transaction():
            raise NotSupported(
                "connection: no transaction has been begun on it", hint="Use `async with connection.transaction():`."
            )
        return Turn(connection, told)
    if type(connection).__module__.split(".")[0] == "psycopg" and hasattr(connection, "pgconn"):
        return Turn(_Psycopg(connection), told)
    raise NotSupported(
        f"connection: {type(connection).__module__}.{type(connection).__qualname__} cannot be used here",
        hint="Give one of asyncpg, psycopg 3 or SQLAlchemy over them to the same database, with a transaction begun.",
    )


def failures(connection: Any) -> tuple[type[Exception], ...]:
    """Say what may be raised by a user's connection."""
    if is_asyncpg(connection):
        return FAILURES
    import psycopg

    return (*FAILURES, psycopg.Error)


def is_taken(error: Exception) -> bool:
    """Say whether someone else took a name a moment ago."""
    return getattr(error, "sqlstate", None) == _UNIQUE_VIOLATION


@asynccontextmanager
async def settings(turn: Turn) -> AsyncIterator[None]:
    """Give back a transaction with the patience that it had; a statement of ours may have changed it."""
    [(before,)] = await turn.fetch(_PATIENCE_READ)
    yield
    await turn.fetch(_PATIENCE_WRITE, before)


async def abort(turn: Turn) -> None:
    """See that a transaction cannot be committed: its claim was lost."""
    with suppress(Exception):  # that is what it is for
        await turn.fetch(_ABORT)


async def notify(turn: Turn, channel: str, payload: str) -> None:
    """Tell other processes when the user commits."""
    await turn.fetch(_NOTIFY, channel, payload)


class _Psycopg:
    """A psycopg connection, blocking or not, with the two methods that a turn needs."""

    def __init__(self, connection: Any) -> None:
        import psycopg
        from psycopg.rows import tuple_row

        self._connection = connection
        self._tuple_row = tuple_row
        self._idle = psycopg.pq.TransactionStatus.IDLE
        self._waits = isinstance(connection, psycopg.AsyncConnection)
        if connection.autocommit and connection.info.transaction_status == self._idle:
            raise NotSupported(
                "connection: no transaction has been begun on it", hint="Use `with connection.transaction():`."
            )

    async def fetch(self, sql: str, *bindings: Any) -> list[Row]:
        import psycopg

        if self._waits:
            cursor: Any = psycopg.AsyncRawCursor(self._connection, row_factory=self._tuple_row)
            await cursor.execute(sql, bindings or None)
            return list(await cursor.fetchall()) if cursor.description else []
        cursor = psycopg.RawCursor(self._connection, row_factory=self._tuple_row)
        cursor.execute(sql, bindings or None)
        return list(cursor.fetchall()) if cursor.description else []

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        if self._connection.info.transaction_status == self._idle:
            await self.fetch(_BEGIN)  # begins theirs; ours would otherwise be the outermost, and commit at its end
        if self._waits:
            async with self._connection.transaction():
                yield
        else:
            with self._connection.transaction():
                yield
