"""The command line: one file for each command; errors in a sentence, with the exit codes of the error table."""

from __future__ import annotations

import sys


def main(tokens: list[str] | None = None) -> None:
    """Run ``dibs``."""
    tokens = sys.argv[1:] if tokens is None else tokens
    try:
        code = _run(tokens)
    except KeyboardInterrupt:  # on the way in or out; commands.run sees the rest
        code = 130
    sys.exit(code)


def _run(tokens: list[str]) -> int:
    if not tokens or tokens in (["--help"], ["-h"]):
        # Nothing else is loaded for what people ask first.
        from dibs.cli.table import overview

        print(overview())
        return 0
    try:
        from dibs.cli.commands import run
    except ModuleNotFoundError as error:
        if error.name not in {"cyclopts", "rich"}:
            raise
        print("dibs: the command line needs two more packages: pip install 'dibs-queue[cli]'", file=sys.stderr)
        return 1
    return run(tokens)
