"""``dibs redrive``: run again what has ended."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from dibs.cli.changing import How, Many, change
from dibs.cli.options import By, DryRun, Json, Link, Which, Yes, actor


def redrive(
    *ids: Annotated[str, Parameter(help="The jobs.")],
    many: Many = Many(),
    which: Which = Which(),
    dry_run: DryRun = False,
    yes: Yes = False,
    by: By = None,
    json: Json = False,
    link: Link = Link(),
) -> int:
    """Run finished jobs again: those named, or those that match.

    Jobs that are named run again at once. Of those that match, a preview is shown first, and you are asked: --yes
    answers, --dry-run only shows it. Attempts begin anew, and what has waited longest is due first.
    """
    how = How("redrive", "redriven", actor(by), dry_run=dry_run, yes=yes, json=json)
    return change(ids, which, many, how, link)
