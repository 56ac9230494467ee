"""A user's own connection, inside a transaction that is theirs to commit: asyncmy's or PyMySQL's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asyncmy.connection import Connection
from asyncmy.cursors import Cursor

from dibs.domain.errors import NotSupported
from dibs.stores.mysql.errors import FAILURES
from dibs.stores.mysql.turn import Turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.stores.common.rows import Row
    from dibs.stores.mysql.literals import Step

_IN_TRANSACTION, _AUTOCOMMIT = 1, 2  # of what the server says about itself with each answer
_SAVEPOINT = "dibs_call"


class Borrowed(Turn):
    """A turn that neither begins a transaction nor ends one, only a part of the user's."""

    sees_the_present = False  # but what was committed when the user's transaction first looked
    begins = (f"SAVEPOINT {_SAVEPOINT}",)
    commits = (f"RELEASE SAVEPOINT {_SAVEPOINT}",)
    rolls_back = (f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}",)

    def clock(self, now: int) -> list[Step]:  # noqa: ARG002 - the signature is Turn's
        """Leave the clock alone: its row would be held for as long as the user likes."""
        return []

    def patiently(self, seconds: int, steps: Sequence[Step]) -> list[Step]:  # noqa: ARG002 - as above
        """Wait as long as the user's connection is set to."""
        return list(steps)


def turn(connection: Any, told: int | None) -> Turn:
    """Make a turn of a user's connection; refuse one that cannot be used."""
    line: _Asyncmy | _PyMySQL
    if isinstance(connection, Connection):
        line = _Asyncmy(connection)
    elif type(connection).__module__.split(".")[0] == "pymysql" and hasattr(connection, "server_status"):
        line = _PyMySQL(connection)
    else:
        raise NotSupported(
            f"connection: {type(connection).__module__}.{type(connection).__qualname__} cannot be used here",
            hint="Give a connection of asyncmy or PyMySQL to the same database, with a transaction begun.",
        )
    if connection.server_status & _AUTOCOMMIT and not connection.server_status & _IN_TRANSACTION:
        raise NotSupported(
            "connection: no transaction has been begun on it", hint="Use `connection.begin()`, or autocommit=False."
        )
    return Borrowed(line, told)


def failures(connection: Any) -> tuple[type[Exception], ...]:
    """Say what may be raised by a user's connection."""
    if isinstance(connection, Connection):
        return FAILURES
    import pymysql

    return (*FAILURES, pymysql.MySQLError)


class _Asyncmy:
    """An asyncmy connection. One statement at a time: whatever it is set to, so does every one."""

    slot = shortest = 0

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def send(self, statements: Sequence[str], more: float = 0.0) -> list[list[Row]]:  # noqa: ARG002 - as Line
        answers: list[list[Row]] = []
        for text in statements:
            cursor = self._connection.cursor(Cursor)
            await cursor.execute(text)
            answers.append(list(await cursor.fetchall()))
        return answers


class _PyMySQL:
    """A PyMySQL connection, which blocks."""

    slot = shortest = 0

    def __init__(self, connection: Any) -> None:
        from pymysql.cursors import Cursor as Plain

        self._connection, self._plain = connection, Plain

    async def send(self, statements: Sequence[str], more: float = 0.0) -> list[list[Row]]:  # noqa: ARG002 - as Line
        answers: list[list[Row]] = []
        for text in statements:
            with self._connection.cursor(self._plain) as cursor:
                cursor.execute(text)
                answers.append(list(cursor.fetchall()))
        return answers
