"""What PostgreSQL and the network complain about, in dibs's words: once, here."""

from __future__ import annotations

import asyncpg

from dibs.domain.errors import DibsError, StoreUnavailable
from dibs.stores.common.steps import not_ours

FAILURES = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError, EOFError)
"""All that a driver or a network may raise."""

BROKEN = (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError, EOFError)
"""What leaves a connection in a state that no one knows."""

AGAIN = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.UniqueViolationError,
    asyncpg.InvalidCachedStatementError,  # a migration has changed the type of what it gives; it is planned anew
    asyncpg.InternalClientError,  # the server had said goodbye, and asyncpg sent nothing
)
"""Nothing was written: someone else was faster, and asking once more finds what they left; or nothing was sent."""

_HINTS: list[tuple[type[Exception], str, str]] = [
    (
        asyncpg.LockNotAvailableError,
        "another transaction holds what is needed",
        "Some transaction has been open for too long: look for one in pg_stat_activity that is idle.",
    ),
    (
        asyncpg.InvalidAuthorizationSpecificationError,
        "the user or the password is wrong",
        "Check the URL, and pg_hba.conf on the server.",
    ),
    (asyncpg.InvalidCatalogNameError, "there is no such database", "Create it: createdb NAME."),
    (asyncpg.InsufficientPrivilegeError, "the user may not do that", "Grant it, or use the user that owns the tables."),
    (asyncpg.TooManyConnectionsError, "the server has no free connection", "Raise max_connections, or use PgBouncer."),
    (asyncpg.DiskFullError, "the disk is full", "Free some space; dibs goes on by itself then."),
    (
        asyncpg.ProtocolViolationError,  # PgBouncer's own, before it has connected to anything
        "something in between does not take the settings that dibs fixes its plans with",
        "Behind PgBouncer add ?prepared=no to the URL, and in transaction mode ?prepared=no&listen=no.",
    ),
    (
        asyncpg.InvalidSQLStatementNameError,
        "a prepared statement was lost",
        "Behind PgBouncer in transaction mode add ?prepared=no to the URL.",
    ),
    (
        asyncpg.DuplicatePreparedStatementError,
        "a prepared statement was there already",
        "Behind PgBouncer in transaction mode add ?prepared=no to the URL.",
    ),
]
_OUTDATED = (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError)


def translate(error: BaseException, name: str) -> DibsError:
    """Say what happened, and what to do about it."""
    if isinstance(error, _OUTDATED):
        return not_ours(name, error)
    for kind, what, hint in _HINTS:
        if isinstance(error, kind):
            return StoreUnavailable(f"{name}: {what}: {error}", hint=hint)
    if isinstance(error, TimeoutError):
        return StoreUnavailable(
            f"{name} did not answer in time",
            hint="Look at the server and the network; ?timeout= in the URL says how long.",
        )
    return StoreUnavailable(f"{name}: {type(error).__name__}: {error}")
