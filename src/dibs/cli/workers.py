"""``dibs workers``: who works."""

from __future__ import annotations

import msgspec

from dibs.cli.options import Jsonl, Link
from dibs.cli.output import Cell, Column, Painted, ago, clean, print_json_lines, print_table, remark
from dibs.domain.job import WorkerInfo
from dibs.wire.show import worker_of

COLUMNS = (
    Column("WORKER"),
    Column("STATUS", whole=True),
    Column("HOLDS", right=True),
    Column("SEEN", right=True),
    Column("ABOUT"),
)
_COLOURS = {"active": "green", "stale": "yellow", "inactive": "dim"}


def workers(
    *,
    json: Jsonl = False,
    link: Link = Link(),
) -> int:
    """List the workers: who is alive, and how many jobs each holds.

    A worker is stale once it has missed two heartbeats, and inactive after it has shut down.
    """
    with link.app() as app:
        found = app.sync.workers()
        now = app.runtime.clock.now()
    if json:
        print_json_lines(map(worker_of, found))
    elif not print_table(COLUMNS, (worker_row(info, now) for info in found)):
        remark("no worker has been seen: start one with `dibs worker package.module:app`")
    return 0


def worker_row(info: WorkerInfo, now: int) -> list[Cell]:
    """Show one worker."""
    about = ", ".join(
        f"{name} {value if isinstance(value, str) else msgspec.json.encode(value).decode()}"
        for name, value in info.metadata.items()
    )
    return [
        info.worker_id,
        Painted(info.status, _COLOURS.get(info.status, "")),
        str(info.active_tasks),
        ago(info.last_seen_us, now),
        clean(about),
    ]
