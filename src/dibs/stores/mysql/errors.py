"""What the server, the driver and the network complain about, in dibs's words: once, here."""

from __future__ import annotations

from asyncmy import errors as driver

from dibs.domain.errors import DibsError, StoreUnavailable
from dibs.stores.common.steps import not_ours

FAILURES = (driver.MySQLError, OSError, TimeoutError, EOFError)
"""All that the driver or a network may raise."""

DEADLOCK, LOCK_WAIT, CHANGED, TAKEN, NOWAIT = 1213, 1205, 1020, 1062, 3572
ALTERED = 1412
"""A migration has altered a table that the transaction comes to only now, as its snapshot is older."""
GONE = 2006
"""The connection was found closed before anything was sent."""
FORBIDDEN = frozenset({1142, 1143, 1356, 1370})
"""The user may not do that to a table, a column or a view."""
TOO_LARGE = 1153
"""More than the server takes as one packet."""
UNSEEN = 1227
"""The user may not see what others do."""
READ_ONLY = frozenset({1290, 1792, 1836})
"""The server takes no writes, or not from this user."""

_UNKNOWN_TABLE = (1146, 1054)
_CLIENT = range(2000, 3000)  # the driver's own: the connection is of no use any more
_KILLED = (1053, 1080, 1184, 1317, 1927, 4031)  # so does the server say that it ends a connection

_HINTS: dict[int, tuple[str, str]] = {
    1040: ("the server has no free connection", "Raise max_connections, or give ?pool= a smaller number."),
    1044: ("the user may not use that database", "Grant it: GRANT ALL ON database.* TO user."),
    1045: ("the user or the password is wrong", "Check the URL, and the host that the user may come from."),
    1049: ("there is no such database", "Create it: CREATE DATABASE name."),
    1114: ("a table or the disk is full", "Free some space; dibs goes on by itself then."),
    1021: ("the disk is full", "Free some space; dibs goes on by itself then."),
    1142: ("the user may not do that", "Grant it, or use the user that owns the tables."),
    TOO_LARGE: ("a job is too large for the server", "Raise max_allowed_packet on the server."),
    1290: ("the server is read-only", "Give the URL of the primary."),
    1665: ("the server logs statements for its replicas", "Set binlog_format to ROW or MIXED."),
    1836: ("the server is read-only", "Give the URL of the primary."),
    DEADLOCK: (
        "the server ended the transaction, as it and another waited for each other",
        "Roll back, and do all of it again.",
    ),
    LOCK_WAIT: (
        "another transaction holds what is needed",
        "Some transaction has been open for too long: look for it in information_schema.innodb_trx.",
    ),
}


class TooOld(StoreUnavailable):
    """The server is older than what dibs needs."""


def code(error: BaseException | None) -> int:
    """Tell the number of an error, of either driver; 0 if it has none."""
    number = error.args[0] if error is not None and error.args else 0
    return number if isinstance(number, int) else 0


def too_large(size: int, most: int) -> driver.MySQLError:
    """Say what the server would: it may hang up on who is still sending, and then no one hears why."""
    return driver.OperationalError(TOO_LARGE, f"{size} bytes in one packet, of {most}")


def is_broken(error: BaseException) -> bool:
    """Say whether an error leaves a connection in a state that no one knows."""
    if not isinstance(error, driver.MySQLError):
        return True
    number = code(error)
    return number == 0 or number in _CLIENT or number in _KILLED


def translate(error: BaseException, name: str) -> DibsError:
    """Say what happened, and what to do about it."""
    number = code(error)
    said = error.args[1] if len(error.args) > 1 else error
    if number in _UNKNOWN_TABLE:
        return not_ours(name, said)
    if number in _HINTS:
        what, hint = _HINTS[number]
        return StoreUnavailable(f"{name}: {what}: {said}", hint=hint)
    if isinstance(error, TimeoutError):
        return StoreUnavailable(f"{name} did not answer in time")
    return StoreUnavailable(f"{name}: {type(error).__name__}: {said}")
