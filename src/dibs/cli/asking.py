"""Asking before something is done to many jobs, and showing how far it has come: on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dibs.domain.errors import InvalidRequest, Problem


def confirmed(question: str) -> bool:
    """Ask on the terminal; where there is none, say how to do without."""
    if not sys.stdin.isatty() or not sys.stderr.isatty():
        raise InvalidRequest([Problem("yes", f"{question} There is no terminal to answer on: add --yes or --dry-run")])
    sys.stdout.flush()
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def watched() -> bool:
    """Say whether someone sees how far it has come."""
    return sys.stderr.isatty()


@contextmanager
def progress(what: str, total: int | None, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Show a bar while something long goes on; the one who does it says how much more is done."""
    if quiet or not watched():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda more: bar.advance(task, more)
