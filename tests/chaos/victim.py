"""A worker or a producer that kills itself, by a real SIGKILL, at one exact point of its work.

    python -m tests.chaos.victim URL POINT HISTORY

SQLite itself says where the work is: it tells when a transaction is about to be committed, and when the COMMIT is over.
Nothing of dibs is replaced or waited for; the thread that commits is the one that dies.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import apsw

import dibs
from tests.chaos.dying import LEASE, LONG_LEASE, die
from tests.chaos.histories import recording

POINTS: dict[str, tuple[str, str]] = {
    "before the enqueue commits": ("enqueue", "before"),
    "after the enqueue commits": ("enqueue", "after"),
    "before the claim commits": ("claim", "before"),
    "after the claim commits": ("claim", "after"),
    "in the handler": ("handler", ""),
    "in an extension, before it commits": ("extend", "before"),
    "in an extension, after it commits": ("extend", "after"),
    "before the settle commits": ("settle", "before"),
    "after the settle commits": ("settle", "after"),
}


class Trap:
    """Springs on the first transaction that is committed once it is armed: just before, or just after.

    Some that write nothing are committed, too, such as when another event loop opens the store: those are let pass.
    """

    def __init__(self, when: str) -> None:
        self.when = when
        self.armed = False
        self.committing = False
        self.changes = 0

    def set(self, connection: apsw.Connection) -> None:
        connection.set_commit_hook(self.before, id=self)  # of one that writes; readers have none
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self.after, id=self)

    def before(self) -> bool:
        if self.armed and self.when == "before":
            die()
        self.committing = self.armed
        return False

    def after(self, event: dict[str, Any]) -> None:
        if event["sql"] == "COMMIT" and event["total_changes"] > self.changes:  # a reader's are none
            self.changes = event["total_changes"]
            if self.committing:
                die()


async def main(url: str, point: str) -> None:
    step, when = POINTS[point]
    trap = Trap(when)
    apsw.connection_hooks.append(trap.set)
    app = dibs.App(url, reap_every=3600.0, prune_every=3600.0)
    await app.counts()  # opens the file: that commits, too
    trap.armed = step in {"enqueue", "claim"}
    if step == "enqueue":
        await app.enqueue("t", idempotency_key="key")
    claim = await app.claim("victim", lease=LONG_LEASE if (step, when) == ("settle", "after") else LEASE)
    assert claim is not None
    async with claim:
        trap.armed = step in {"extend", "settle"}
        if step == "handler":
            die()
        if step == "extend":
            await asyncio.sleep(60)  # the keeper walks into it
    raise AssertionError(f"outlived {point}")


if __name__ == "__main__":
    with recording(Path(sys.argv[3]), "victim"):
        asyncio.run(main(sys.argv[1], sys.argv[2]))
