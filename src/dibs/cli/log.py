"""``dibs log``: what has happened to a job."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from dibs.cli.options import Jsonl, Link
from dibs.cli.output import Cell, Column, clean, print_json_lines, print_table
from dibs.cli.reading import no_such_job
from dibs.domain.job import Event
from dibs.wire.show import log_entry

COLUMNS = (
    Column("SEQ", right=True),
    Column("AT", whole=True),
    Column("EVENT", whole=True),
    Column("TO"),
    Column("BY"),
    Column("FENCE", right=True),
    Column("TRIED", right=True),
    Column("NOTE"),
)


def log(
    id: Annotated[str, Parameter(help="The job.")],
    /,
    *,
    json: Jsonl = False,
    link: Link = Link(),
) -> int:
    """Show what has happened to a job.

    Of a job that was pruned or purged, the last event is kept for a day.
    """
    with link.app() as app:
        events = app.sync.log(id)
        if not events:
            raise no_such_job(app, id)
    if json:
        print_json_lines(map(log_entry, events))
    else:
        print_table(COLUMNS, map(_row, events))
    return 0


def _row(event: Event) -> list[Cell]:
    return [
        str(event.seq),
        event.at.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00"),
        event.event,
        event.to or "",
        clean(event.actor or event.worker_id or ""),
        str(event.fence),
        str(event.attempts),
        clean(event.note),
    ]
