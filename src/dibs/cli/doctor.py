"""``dibs doctor``: what may be wrong with a store, and how to mend it."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import msgspec
from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from dibs.broker.connect import open_store
from dibs.cli.load import existing
from dibs.clock import Clock
from dibs.domain.errors import StoreUnavailable
from dibs.domain.finding import Finding, Level, exit_code, failure, ok, worst
from dibs.store import Examined

_COLOURS = {Level.OK: "green", Level.WARNING: "yellow", Level.FAILURE: "bold red"}


def doctor(
    *,
    store: Annotated[str | None, Parameter(help="The store's URL.")] = None,
    json: Annotated[bool, Parameter(help="Print the findings as JSON.", negative=())] = False,
) -> int:
    """Look for what is wrong with a store, or will hurt: reachable, version, schema, privileges, clock, settings.

    Changes nothing. Exits with 0 if there is no failure (warnings are none), with 8 if the store cannot be used, and
    with 1 if it can but breaks a promise.
    """
    found = asyncio.run(examine(existing(store).url))
    if json:
        findings = [msgspec.structs.asdict(finding) for finding in found]
        print(msgspec.json.encode({"ok": exit_code(found) == 0, "worst": worst(found), "findings": findings}).decode())
    else:
        show(found, Console())
    return exit_code(found)


async def examine(url: str) -> list[Finding]:
    """Have a store examine itself; one that cannot is at least asked for the time."""
    try:
        store = open_store(url, Clock())
    except StoreUnavailable as error:  # its library is too old to be used at all
        return [failure("version", error.message, error.hint)]
    try:
        if isinstance(store, Examined):
            return await store.examine()
        try:
            await store.now()
        except StoreUnavailable as error:
            return [failure("reachable", error.message, error.hint)]
        return [ok("reachable", "it answers; this kind of store has no more to say about itself")]
    finally:
        await store.close()


def show(found: list[Finding], console: Console) -> None:
    """Print a table, and a line that sums it up."""
    table = Table(box=None, pad_edge=False)
    for heading in ("", "what", "how it is, and what to do"):
        table.add_column(heading, overflow="fold")
    for finding in found:
        message = finding.message if not finding.fix else f"{finding.message}\n→ {finding.fix}"
        table.add_row(f"[{_COLOURS[finding.level]}]{finding.level}[/]", finding.code, _plain(message))
    console.print(table)
    number = {level: sum(finding.level is level for finding in found) for level in Level}
    tell = f"{number[Level.FAILURE]} failures, {number[Level.WARNING]} warnings, {number[Level.OK]} things well"
    print(tell, file=sys.stdout)


def _plain(text: str) -> str:
    """Keep what looks like markup, such as the brackets of an address, as it is."""
    return text.replace("[", r"\[")
