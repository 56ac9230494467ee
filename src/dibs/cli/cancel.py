"""``dibs cancel``: stop jobs."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from dibs.cli.options import By, Json, Link, actor
from dibs.cli.output import print_json
from dibs.cli.reading import no_such_job
from dibs.domain.errors import NotFound


def cancel(
    *ids: Annotated[str, Parameter(help="The jobs.")],
    by: By = None,
    json: Json = False,
    link: Link = Link(),
) -> int:
    """Stop jobs that have not ended, whoever holds them.

    One alone that has ended, or is not there, is an error; of several it is counted.
    """
    with link.app() as app:
        try:
            changes = app.sync.cancel(*ids, by=actor(by))
        except NotFound:
            raise no_such_job(app, ids[0]) from None
    if json:
        print_json(changes)
        return 0
    other = {
        "had ended otherwise": changes.refused,
        "were cancelled before": changes.repeated,
        "not found": changes.missing,
    }
    print(
        ", ".join(
            [f"cancelled {changes.changed:,}", *(f"{number:,} {what}" for what, number in other.items() if number)]
        )
    )
    return 0
