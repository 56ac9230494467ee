"""``dibs demo``: see it run."""

from __future__ import annotations

import math
import sys
from typing import Annotated

from cyclopts import Parameter


def demo(
    *,
    seconds: Annotated[float | None, Parameter(help="How long; until Ctrl-C on a terminal, else 12.")] = None,
    kill: Annotated[bool, Parameter(help="Kill a worker process every five seconds.")] = True,
    json: Annotated[bool, Parameter(help="Print only the summary, as JSON.", negative=())] = False,
) -> int:
    """Run a server, two producers and ten workers on a throw-away SQLite file, and watch them.

    Workers are killed in the middle of their work; the exit code says whether every promise was kept.
    """
    from dibs.demo.view import demo as run

    terminal = sys.stdout.isatty() and not json
    length = seconds if seconds is not None else math.inf if terminal else 12.0
    return run(length, kill=kill, terminal=terminal, as_json=json)
