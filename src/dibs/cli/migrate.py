"""``dibs migrate``: bring a store's schema up to date."""

from __future__ import annotations

from typing import Annotated

import msgspec
from cyclopts import Parameter

from dibs.app import App


def migrate(
    *,
    store: Annotated[str | None, Parameter(help="The store's URL.")] = None,
    dry_run: Annotated[bool, Parameter(help="Only say what would be done.", negative=())] = False,
    json: Annotated[bool, Parameter(help="Print the steps as JSON.", negative=())] = False,
) -> int:
    """Bring the store's schema up to date. Safe while workers run, and safe to run twice."""
    with App(store).sync as app:
        steps = app.migrate(dry_run=dry_run)
    if json:
        print(msgspec.json.encode({"steps": steps, "dry_run": dry_run}).decode())
    elif steps:
        print("\n".join(f"{'would run' if dry_run else 'ran'} {step}" for step in steps))
    else:
        print("nothing to do: the schema is up to date")
    return 0
