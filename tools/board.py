"""Plant each mistake, and say what notices it, and how fast; exit 1 if anything goes unnoticed.

Every catcher that runs the mistaken code looks, each in a process of its own: the simulator from seed 0 on, the suites
up to the first test that fails, the small worlds up to the first broken promise.

    python tools/board.py
    python tools/board.py --only fence --json
    python tools/board.py --write    also the page docs/explanation/planted-mistakes.md and its figures
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from figures import record
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.mistakes.catchers import Catch, Effort, fitting, look  # noqa: E402 - found only now
from tests.mistakes.planting import Mistake  # noqa: E402 - likewise
from tests.mistakes.table import MISTAKES  # noqa: E402 - likewise

PAGE = ROOT / "docs" / "explanation" / "planted-mistakes.md"
BEGIN, END = "<!-- board: made by tools/board.py --write -->\n", "<!-- end of board -->\n"
PATIENCE = 300.0  # seconds; a catcher that takes longer has noticed nothing

Row = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./dev board", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="mistakes whose name has this in it")
    parser.add_argument("--seeds", type=int, default=Effort().seeds, help="simulated worlds for each, at the most")
    parser.add_argument("--seconds", type=float, default=Effort().seconds, help="time for them, at the most")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quick", action="store_true", help="only the quickest catcher that is known for each")
    parser.add_argument("--json", action="store_true", help="print the board as JSON")
    parser.add_argument("--write", action="store_true", help="write the page and its figures too")
    parser.add_argument("--look", nargs=2, metavar=("CATCHER", "MISTAKE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    effort = Effort(args.seeds, args.seconds)
    if args.look:
        print(json.dumps(look(args.look[0], MISTAKES[args.look[1]], effort)))
        return 0
    if args.write and args.only:
        parser.error("--write needs all of them")
    mistakes = [mistake for mistake in MISTAKES.values() if args.only in mistake.name]
    catchers = {each.name: [each.caught_by] if args.quick else list(fitting(each)) for each in mistakes}
    rows = board(mistakes, catchers, effort, args.processes, quiet=args.json)
    if args.json:
        print(json.dumps({"mistakes": rows}))
    else:
        show(rows)
    if args.write:
        PAGE.write_text(page(PAGE.read_text("utf-8"), rows), "utf-8")
        record("board", {"mistakes": rows})
    return 0 if all(row["caught"] for row in rows) else 1


def board(
    mistakes: list[Mistake], catchers: dict[str, list[str]], effort: Effort, processes: int, *, quiet: bool
) -> list[Row]:
    tries = [(mistake, catcher) for mistake in mistakes for catcher in catchers[mistake.name]]
    columns = (TextColumn("looking"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    catches: dict[str, list[Catch]] = {mistake.name: [] for mistake in mistakes}
    disable = quiet or not sys.stderr.isatty()
    with (
        Progress(*columns, console=Console(stderr=True), transient=True, disable=disable) as bar,
        ThreadPoolExecutor(processes) as pool,
    ):
        task = bar.add_task("", total=len(tries))
        for (mistake, _), catch in zip(tries, pool.map(lambda each: apart(*each, effort), tries), strict=True):
            catches[mistake.name].append(catch)
            bar.update(task, advance=1, description=mistake.name)
            if disable and not quiet:
                print(f"{mistake.name}: {catch.by}: {catch.noticed or 'nothing'}, {catch.seconds} s", file=sys.stderr)
    return [row(mistake, catches[mistake.name]) for mistake in mistakes]


def apart(mistake: Mistake, catcher: str, effort: Effort) -> Catch:
    """Look in another process, so that a mistake which never ends can be given up."""
    options = ["--seeds", str(effort.seeds), "--seconds", str(effort.seconds)]
    command = [sys.executable, __file__, *options, "--look", catcher, mistake.name]
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return Catch(catcher, PATIENCE, None)
    return Catch(*json.loads(done.stdout))


def row(mistake: Mistake, catches: list[Catch]) -> Row:
    caught = sorted((catch for catch in catches if catch.noticed is not None), key=lambda catch: catch.seconds)
    return {
        "name": mistake.name,
        "promise": mistake.promise,
        "kind": mistake.kind,
        "where": mistake.where,
        "caught": bool(caught),
        "seconds": caught[0].seconds if caught else None,
        "by": [{"catcher": catch.by, "seconds": catch.seconds, "noticed": catch.noticed} for catch in caught],
    }


def cells(row: Row) -> tuple[str, str, str, str, str, str]:
    first, *others = [f"{by['catcher']}: {by['noticed']}" for by in row["by"]] or ["nothing"]
    seconds = "" if row["seconds"] is None else f"{row['seconds']:.1f} s"
    return row["name"], row["where"], str(row["promise"]), first, seconds, "; ".join(others)


def columns(rows: Iterable[Row]) -> tuple[list[str], list[list[str]]]:
    """Give heads and lines; no column for further catchers, if only the quickest of each was asked."""
    heads = ["mistake", "in", "promise", "caught first by", "after", "and by"]
    lines = [list(cells(each)) for each in rows]
    most = 6 if any(line[5] for line in lines) else 5
    return heads[:most], [line[:most] for line in lines]


def show(rows: list[Row]) -> None:
    heads, lines = columns(rows)
    table = Table(*heads)
    for each, line in zip(rows, lines, strict=True):
        table.add_row(*line, style=None if each["caught"] else "bold red")
    Console().print(table)
    print(summary(rows))


def summary(rows: Iterable[Row]) -> str:
    rows = list(rows)
    caught = [each for each in rows if each["caught"]]
    quick = sum(each["seconds"] < 60 for each in caught)
    return f"{len(caught)} of {len(rows)} caught, {quick} of them in under a minute"


def page(text: str, rows: list[Row]) -> str:
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    heads, told = columns(rows)
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in each)} |" for each in told]
    return f"{before}{BEGIN}{summary(rows)}.\n\n" + "\n".join(lines) + f"\n{END}{after}"


if __name__ == "__main__":
    sys.exit(main())
