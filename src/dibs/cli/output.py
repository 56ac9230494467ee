"""What a command prints: tables that fit and stream, JSON lines, and remarks that do not get in a pipe's way."""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import msgspec

from dibs.domain.retry import SECOND
from dibs.wire.answered import Answer

FIRST = 200
"""Rows that are looked at to find out how wide the columns are; the rest goes by these."""
LEAST = 6
"""Cells that are left of a column that has to give way."""

_COLOURS = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "dim": "2", "bold": "1"}
_STATUS = {"pending": "cyan", "claimed": "yellow", "completed": "green", "failed": "red", "cancelled": "dim"}
_SPANS = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))


class Column(NamedTuple):
    """One column of a table."""

    title: str
    right: bool = False
    whole: bool = False  # cut last of all: people copy it


class Painted(NamedTuple):
    """A text in a colour."""

    text: str
    colour: str


Cell = str | Painted


def print_json(value: Any) -> None:
    """Print one thing as a line of JSON; that it went well is what the exit code says."""
    if isinstance(value, Answer):
        value = {name: field for name, field in msgspec.structs.asdict(value).items() if name != "success"}
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


def print_json_lines(values: Iterable[Any]) -> int:
    """Print each as a line of JSON as it comes, and say how many there were."""
    number = 0
    for number, value in enumerate(values, 1):
        print_json(value)
        if number % FIRST == 0:
            sys.stdout.flush()
    return number


def remark(text: str) -> None:
    """Say something that is no part of the output."""
    sys.stdout.flush()  # so that it stands below what it is about
    print(f"dibs: {clean(text)}", file=sys.stderr)


def clean(text: str) -> str:
    """Show a text as one line that cannot steer the terminal: what it is made of was written by others."""
    text = " ".join(text.split())
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape", "replace").decode() for char in text)


def status_cell(status: str) -> Painted:
    """Show a status in its colour."""
    return Painted(status, _STATUS.get(status, ""))


def span(seconds: float) -> str:
    """Say how long that is, roughly."""
    for size, unit in _SPANS:
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return "0s"


def ago(us: int | None, now: int) -> str:
    """Say how long ago, or ahead, a moment is."""
    if us is None:
        return ""
    seconds = (now - us) / SECOND
    return f"{span(seconds)} ago" if seconds >= 0 else f"in {span(-seconds)}"


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> int:
    """Print rows as they come, and say how many there were; no heading if there is none."""
    number = 0
    for number, line in enumerate(table_lines(columns, rows)):
        sys.stdout.write(line + "\n")
        if number % FIRST == 0:
            sys.stdout.flush()
    return number


def table_lines(columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> Iterator[str]:
    """Make the lines of a table, from its heading on; none if there are no rows."""
    waiting = iter(rows)
    first = list(islice(waiting, FIRST))
    if not first:
        return
    room, coloured = _room(), use_colour()
    widths = _fit(columns, first, room)
    heading = [Painted(column.title, "bold") for column in columns]
    for row in chain([heading], first, waiting):
        yield _line(columns, widths, row, cut=room is not None, coloured=coloured)


def use_colour() -> bool:
    """Say whether colours are wanted: on a terminal, unless NO_COLOR says no."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str, *, coloured: bool) -> str:
    """Colour a text, if that is wanted."""
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if coloured and colour else text


def terminal_size() -> os.terminal_size:
    """Say how many cells and lines the terminal has."""
    return shutil.get_terminal_size()


def _room() -> int | None:
    """Say how many cells a line has; none: it is a file or a pipe, where nothing is cut."""
    if not sys.stdout.isatty() and not os.environ.get("COLUMNS"):
        return None
    return max(20, terminal_size().columns)


def _text(cell: Cell) -> str:
    return cell.text if isinstance(cell, Painted) else cell


def _fit(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], room: int | None) -> list[int]:
    widths = [max(_width(column.title), *(_width(_text(row[i])) for row in rows)) for i, column in enumerate(columns)]
    if room is None:
        return widths
    spare = room - 2 * (len(columns) - 1)
    _shrink(widths, [i for i, column in enumerate(columns) if not column.whole], spare, LEAST)
    _shrink(widths, list(range(len(columns))), spare, 1)  # on a terminal that narrow, no column is whole
    return widths


def _shrink(widths: list[int], those: list[int], spare: int, least: int) -> None:
    """Let the widest of those columns give way, until all fit or none has anything left to give."""
    while sum(widths) > spare and those:
        i = max(those, key=widths.__getitem__)
        if widths[i] <= least:
            return
        widths[i] -= 1


def _line(columns: Sequence[Column], widths: list[int], row: Sequence[Cell], *, cut: bool, coloured: bool) -> str:
    parts = []
    last = len(columns) - 1
    for i, (column, width, cell) in enumerate(zip(columns, widths, row, strict=True)):
        text = _text(cell)
        if cut:
            text = _cut(text, width)
        padding = "" if i == last and not column.right else " " * (width - _width(text))
        text = paint(text, cell.colour, coloured=coloured) if isinstance(cell, Painted) else text
        parts.append(padding + text if column.right else text + padding)
    return "  ".join(parts).rstrip()


def _width(text: str) -> int:
    """Count the cells that a text takes: some letters take two, marks none."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


def _cut(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    kept, used = [], 0
    for char in text:
        used += _cells(char)
        if used > width - 1:
            break
        kept.append(char)
    return "".join(kept) + "…"
