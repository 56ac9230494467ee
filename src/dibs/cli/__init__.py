"""The command line: one file for each command; errors in a sentence, with the exit codes of the error table."""

from __future__ import annotations

import sys


def main(tokens: list[str] | None = None) -> None:
    """Run ``dibs``."""
    try:
        from dibs.cli.commands import run
    except ModuleNotFoundError as error:
        if error.name not in {"cyclopts", "rich"}:
            raise
        sys.exit("dibs: the command line needs two more packages: pip install 'dibs-queue[cli]'")
    sys.exit(run(sys.argv[1:] if tokens is None else tokens))
