"""The caller's own transaction, in which a job may be enqueued or completed: what its connection tells of it."""

from __future__ import annotations

from typing import Any


def has_ended(connection: Any) -> bool:
    """Say whether the caller's transaction has ended: while it is open, asking what became of it would wait for it."""
    if connection is None:
        return False
    for name in ("in_transaction", "is_in_transaction"):  # apsw's and SQLAlchemy's way to say it, and asyncpg's
        if (state := getattr(connection, name, None)) is not None:
            return not (state() if callable(state) else state)
    status = getattr(getattr(connection, "info", None), "transaction_status", None)  # psycopg's
    return status is None or status.name in {"IDLE", "UNKNOWN"}  # the latter once it is closed
