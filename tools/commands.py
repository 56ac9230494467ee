"""Make docs/reference/commands.md from the parser: every command, its arguments and its options.

python tools/commands.py            write it
python tools/commands.py --check    fail if the page is not what would be written
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from cyclopts import App

from dibs.cli.commands import commands
from dibs.cli.table import GROUPS

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "commands.md"

HEAD = """\
# Every command

Made from the parser by `tools/commands.py`; `./dev check` holds it to that. What they have in common is in [The command
line](command-line.md).
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    made = page()
    if args.check:
        if not PAGE.exists() or made != PAGE.read_text():
            print(f"{PAGE.relative_to(ROOT)} is not up to date: run tools/commands.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(made)
    return 0


def page() -> str:
    parts = [HEAD]
    for title, entries in GROUPS.items():
        parts.append(f"## {title}\n")
        for entry in entries:
            parts += sections(commands[entry.name], f"dibs {entry.name}")
    return "\n".join(parts)


def sections(app: App, name: str) -> Iterator[str]:
    """Describe a command, or each of those below it."""
    below = [word for word in app if not word.startswith("-")]
    for word in below:
        yield from sections(app[word], f"{name} {word}")
    if below:
        return
    arguments = [argument for argument in app.assemble_argument_collection() if argument.names != ("*",)]
    named = [argument for argument in arguments if argument.names[0].startswith("-")]
    placed = [argument for argument in arguments if argument not in named]
    words = [_placed(argument) for argument in placed]
    words += [f"{argument.names[0]} {_value(argument)}".strip() for argument in named if argument.required]
    yield f"### {name}\n"
    yield f"`{' '.join([name, *words])}{' [OPTIONS]' if len(named) > sum(a.required for a in named) else ''}`\n"
    yield f"{_text(app)}\n"
    yield "| argument or option | |\n|---|---|"
    yield "\n".join(_row(argument) for argument in [*placed, *named])
    yield ""


def _text(app: App) -> str:
    """Take the command's own words, with each paragraph on one line."""
    paragraphs = (app.help or "").strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs).replace("<", "&lt;")


def _placed(argument: Any) -> str:
    name = argument.names[0]
    if "VAR_POSITIONAL" in str(argument.field_info.kind):
        return f"[{name}…]"
    return name if argument.required else f"[{name}]"


def _value(argument: Any) -> str:
    if argument.hint is bool:
        return ""
    return str(argument.names[0]).lstrip("-").replace("-", "_").upper()


def _row(argument: Any) -> str:
    name = argument.names[0]
    is_option = name.startswith("-")
    shown = [f"{each} {_value(argument)}".strip() if is_option else each for each in argument.names]
    said = argument.parameter.help or ""
    choices = argument.get_choices()
    if choices:
        said += f" One of {', '.join(f'`{choice}`' for choice in choices)}."
    default = argument.field_info.default
    if (
        is_option
        and not argument.required
        and not any(default is each for each in (None, True, False, argument.field_info.empty))
    ):
        said += f" Else `{default.value if isinstance(default, Enum) else default}`."
    if argument.parameter.env_var:
        said += f" Or in `{argument.parameter.env_var[0]}`."
    left = ", ".join(f"`{each}`" for each in shown).replace("|", "\\|")
    return f"| {left} | {said.strip()} |".replace("<", "&lt;")


if __name__ == "__main__":
    sys.exit(main())
