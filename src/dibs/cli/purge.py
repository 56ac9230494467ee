"""``dibs purge``: remove what has ended."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from dibs.cli.changing import How, Many, change
from dibs.cli.options import By, DryRun, Json, Link, Which, Yes, actor


def purge(
    *ids: Annotated[str, Parameter(help="The jobs.")],
    many: Many = Many(),
    which: Which = Which(),
    dry_run: DryRun = False,
    yes: Yes = False,
    by: By = None,
    json: Json = False,
    link: Link = Link(),
) -> int:
    """Remove finished jobs now: those named, or those that match.

    Jobs that are named go at once. Of those that match, a preview is shown first, and you are asked: --yes answers,
    --dry-run only shows it. They are gone for good; of each, the last event stays for a day.
    """
    how = How("purge", "purged", actor(by), dry_run=dry_run, yes=yes, json=json)
    return change(ids, which, many, how, link)
