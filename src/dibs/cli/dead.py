"""``dibs dead``: what went wrong, and how often."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from dibs.cli.errors import COLUMNS, Groups, row
from dibs.cli.options import Jsonl, Link, Which
from dibs.cli.output import print_json_lines, print_table, remark
from dibs.cli.reading import near_queue, pages
from dibs.domain.errors import InvalidRequest, Problem
from dibs.domain.job import Status


def dead(
    *,
    which: Which = Which(),
    limit: Annotated[int, Parameter(help="How many dead letters are looked at, newest first.")] = 10_000,
    json: Jsonl = False,
    link: Link = Link(),
) -> int:
    """Show the dead letters, grouped by what went wrong.

    Jobs of one task whose errors differ only in numbers and ids are one group. `dibs jobs --status failed` lists them
    one by one, and `dibs redrive` runs them again.
    """
    if limit < 1:
        raise InvalidRequest([Problem("limit", "must be 1 or more")])
    groups = Groups()
    with link.app() as app:
        for page in pages(app, which.filter(Status.FAILED), limit=limit):
            groups.add(page)
        found, now = groups.biggest(), app.runtime.clock.now()
        if not found:
            remark((near_queue(app, which.queue) if which.queue else None) or "there are no dead letters")
    if json:
        print_json_lines(found)
    else:
        print_table(COLUMNS, (row(group, now) for group in found))
    if groups.jobs >= limit:
        remark(f"these are the newest {limit:,} dead letters; there may be more: --limit N")
    return 0
