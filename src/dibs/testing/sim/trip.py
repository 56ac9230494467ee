"""A process that dies, or whose disk is full, in the midst of a transaction: before its n-th statement."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import apsw

if TYPE_CHECKING:
    from dibs.store import Store
    from dibs.stores.sqlite import SqliteStore


class Killed(BaseException):
    """The process is gone. What it had not committed is rolled back, as by whoever opens the file next."""


@contextmanager
def tripped(store: Store, at: int, *, killed: bool) -> Iterator[None]:
    """Let the ``at``-th statement that writes to the store's file fail, if there are so many; once, unless killed."""
    if store.capabilities.durable:
        connection = _connection(store)  # type: ignore[arg-type]  # there is no other durable one here
        connection.exec_trace = _Wire(at, killed=killed)
        try:
            yield
        finally:
            with suppress(apsw.ConnectionClosedError):  # given up, as it may be to blame
                connection.exec_trace = None
    elif killed:
        raise Killed  # memory knows no midst
    else:
        yield


def _connection(store: SqliteStore) -> apsw.Connection:
    return store._engine._writer_link.connection()  # noqa: SLF001 - a disk does not ask for leave either


class _Wire:
    def __init__(self, left: int, *, killed: bool) -> None:
        self._left, self._killed = left, killed

    def __call__(self, _cursor: Any, sql: str, _bindings: Any) -> bool:
        self._left -= 1
        if self._killed and self._left <= 0 and sql != "ROLLBACK":
            raise Killed
        if self._left == 0:
            raise apsw.FullError("database or disk is full")
        return True
