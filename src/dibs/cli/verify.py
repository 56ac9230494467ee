"""``dibs verify``: replay the log and prove the promises on it."""

from __future__ import annotations

import sys
from typing import Annotated

import msgspec
from cyclopts import Parameter
from rich.console import Console
from rich.progress import Progress

from dibs.cli.options import Link


def verify(
    *,
    json: Annotated[bool, Parameter(help="Print the report as JSON.", negative=())] = False,
    link: Link = Link(),
) -> int:
    """Replay the store's log and prove on it: one holder at a time, growing fences, attempts, due times, keys, states.

    Exits with 0 if every promise was kept, with 1 if one was broken; the first event that breaks it is printed.
    """
    with link.app() as opened:
        app = opened.sync
        console = Console(stderr=True)
        with Progress(console=console, transient=True, disable=json or not sys.stderr.isatty()) as bar:
            counts = app.counts()
            total = counts.unfinished + counts.completed + counts.failed + counts.cancelled
            task = bar.add_task("replaying", total=total or None)
            report = app.verify(progress=lambda jobs: bar.update(task, completed=jobs))
    if json:
        first = [str(violation) for violation in report.violations]
        print(
            msgspec.json.encode(
                {"ok": report.ok, "jobs": report.jobs, "events": report.events, "broken": first}
            ).decode()
        )
    else:
        print(report)
    return 0 if report.ok else 1
