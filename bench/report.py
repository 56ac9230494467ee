"""What was found, for people and for programs."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import apsw
from rich.console import Console
from rich.table import Table

from bench.run import Bar, Figure, Run, Spread


def show(run: Run, console: Console) -> None:
    """Print the figures, then the bars: those are what one looks for at the end."""
    if run.figures:
        console.print(_figures(run.figures))
    for name, text in run.profiles.items():
        console.print(f"where the time goes: {name}", style="bold")
        console.print(text, highlight=False, markup=False)
    if run.bars:
        console.print(_bars(run.bars))
    for note in run.notes:
        console.print(f"note: {note}")
    for about in run.contenders.values():
        console.print(f"contender: {about}", highlight=False, markup=False)
    if run.jobs_checked:
        console.print(f"{run.jobs_checked:,} jobs: each was done exactly once, and dibs's log proves it of its own.")


def _figures(figures: Sequence[Figure]) -> Table:
    table = Table(title="figures", title_justify="left", caption=machine_line(), caption_justify="left")
    for heading in ("case", "subject", "metric"):
        table.add_column(heading)
    for heading in ("median", "quarter points", "turns"):
        table.add_column(heading, justify="right")
    last = ""
    for figure in figures:
        if last and figure.case != last:
            table.add_section()
        table.add_row("" if figure.case == last else figure.case, *_row(figure))
        last = figure.case
    return table


def _bars(bars: Sequence[Bar]) -> Table:
    table = Table(title="bars", title_justify="left")
    for heading in ("bar", "what"):
        table.add_column(heading)
    for heading in ("limit", "median", "quarter points"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for bar in bars:
        verdict = "[green]held[/]" if bar.held else "[red]MISSED[/]"
        limit, middle = f"{bar.limit} {bar.unit}", _number(bar.spread.median)
        table.add_row(bar.name, bar.about, limit, middle, _quarters(bar.spread), verdict)
    return table


def _row(figure: Figure) -> tuple[str, str, str, str, str]:
    spread = figure.spread
    return (
        figure.subject,
        figure.metric,
        f"{_number(spread.median)} {figure.unit}",
        "" if len(figure.values) == 1 else _quarters(spread),
        str(len(figure.values)),
    )


def _quarters(spread: Spread) -> str:
    return f"{_number(spread.low)} … {_number(spread.high)}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def machine() -> dict[str, Any]:
    """Describe what a reader must know to judge the figures, and nothing that names the machine."""
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "dibs": version("dibs-queue"),
    }


def machine_line() -> str:
    it = machine()
    where = f"{it['system']} {it['machine']}, {it['cores']} cores"
    return f"{where}, Python {it['python']}, SQLite {it['sqlite']}, dibs {it['dibs']}"


def write_json(run: Run, path: Path) -> None:
    """Write all of it, every turn too, so that two runs can be compared."""
    path.write_text(
        json.dumps(
            {
                "at": datetime.now(UTC).isoformat(timespec="seconds"),
                "machine": machine(),
                "quick": run.quick,
                "jobs_checked": run.jobs_checked,
                "notes": run.notes,
                "contenders": run.contenders,
                "figures": [_figure(figure) for figure in run.figures],
                "bars": [_bar(bar) for bar in run.bars],
                "claim_cost_us": run.curves,
            },
            indent=1,
        )
        + "\n",
        encoding="utf-8",
    )


def _figure(figure: Figure) -> dict[str, Any]:
    return {
        "case": figure.case,
        "subject": figure.subject,
        "metric": figure.metric,
        "unit": figure.unit,
        "median": figure.spread.median,
        "values": figure.values,
    }


def _bar(bar: Bar) -> dict[str, Any]:
    return {
        "name": bar.name,
        "about": bar.about,
        "unit": bar.unit,
        "at_least": bar.at_least,
        "at_most": bar.at_most,
        "median": bar.spread.median,
        "values": bar.values,
        "held": bar.held,
    }
