"""The command line: one file for each command; errors in a sentence, with the exit codes of the error table."""

from __future__ import annotations

import os
import sys

INTERRUPTED = 130  # 128 and the number of the signal, as shells have it
PIPE_CLOSED = 141


def main(tokens: list[str] | None = None) -> None:
    """Run ``dibs``."""
    tokens = sys.argv[1:] if tokens is None else tokens
    try:
        code = _run(tokens)
        sys.stdout.flush()  # here, where a pipe that was closed is no surprise
    except KeyboardInterrupt:  # on the way in or out; commands.run sees the rest
        code = INTERRUPTED
    except BrokenPipeError:
        # Whoever read it has seen enough. What is left in the buffer goes nowhere, and quietly.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = PIPE_CLOSED
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
