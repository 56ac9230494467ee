"""The parser of all commands, and what becomes of their errors."""

from __future__ import annotations

import sys
from difflib import get_close_matches

import cyclopts

from dibs.cli import INTERRUPTED
from dibs.cli.table import ABOUT, COMMANDS, OTHER_WORDS, WHERE
from dibs.domain.errors import DibsError, InvalidRequest, Problem


def _version() -> str:
    from dibs import __version__

    return __version__


def _default(value: object) -> str | None:
    """Say what an option is if it is not given, where that says anything."""
    return None if value is None or isinstance(value, bool) else str(value)


commands = cyclopts.App(
    name="dibs",
    help=f"{ABOUT} {WHERE}",
    version=_version,
    result_action="return_value",
    default_parameter=cyclopts.Parameter(show_default=_default),
)
for entry in COMMANDS:
    commands.command(entry.home, name=entry.name)  # loaded when it is run


def run(tokens: list[str]) -> int:
    """Run one command and give its exit code; a user's mistake is told in a sentence, without a traceback."""
    try:
        _check_command(tokens[0] if tokens else "")
        code = commands(tokens, exit_on_error=False, print_error=False)
    except cyclopts.CycloptsError as error:
        print(f"dibs: {_sentence(error)}", file=sys.stderr)
        return 2
    except DibsError as error:
        print(f"dibs: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    return code if isinstance(code, int) else 0


def _check_command(word: str) -> None:
    """Refuse a word that is no command, and say which one may have been meant."""
    names = [entry.name for entry in COMMANDS]
    if word in names or word.startswith("-"):
        return
    near = OTHER_WORDS.get(word) or next(iter(get_close_matches(word, names, 1)), None)
    meant = f"Did you mean `dibs {near}`? " if near else ""
    raise InvalidRequest([Problem("command", f"there is no {word!r}. {meant}`dibs --help` lists them all")])


def _sentence(error: cyclopts.CycloptsError) -> str:
    """Say what was wrong in one line, and where to read on."""
    said = " ".join(str(error).split()).partition(" Available commands:")[0]
    return f"{said} (See `{' '.join(['dibs', *(error.command_chain or ())])} --help`.)"
