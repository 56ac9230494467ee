"""What was seen, for people and for programs."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from bench.report import machine, machine_line
from soak.faults import Fault
from soak.figures import BIN
from soak.run import PROMPT, Happened, Soaked


def show(soaked: Soaked, console: Console) -> None:
    """Print the faults one by one, then the figures, then the verdict: it is what one looks for at the end."""
    console.print(_faults(soaked))
    verdict = soaked.verdict
    console.print(
        f"{soaked.stage}: {len(soaked.happened)} faults in {soaked.seconds:.0f} s, {verdict.jobs:,} jobs, "
        f"{verdict.operations:,} operations ({verdict.unanswered:,} unanswered); {_figures(soaked)}",
        highlight=False,
    )
    for refusals in soaked.refusals.values():
        console.print(f"refused {refusals.times:,} ×: {refusals.first}", highlight=False, markup=False)
    for fault, why in soaked.left_out.items():
        console.print(f"left out: {fault}: {why}", highlight=False, markup=False)
    for problem in verdict.problems:
        console.print(f"BROKEN: {problem}", style="red", highlight=False, markup=False)
    if soaked.ok:
        console.print(
            "nothing acknowledged was lost, nothing done twice, every job ended, and every history fits the log"
        )


def _figures(soaked: Soaked) -> str:
    ended = sum(moment.ended for moment in soaked.moments)
    p50 = [moment.p50 for moment in soaked.moments if moment.p50 is not None]
    p95 = [moment.p95 for moment in soaked.moments if moment.p95 is not None]
    if not p50 or not p95:
        return "nothing ended"
    return (
        f"{ended / soaked.seconds:.0f} jobs a second; latency of the middle half second: "
        f"p50 {_time(median(p50))}, p95 {_time(median(p95))}; of the worst: p95 {_time(max(p95))}"
    )


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


def _faults(soaked: Soaked) -> Table:
    title = f"{soaked.stage}, seed {soaked.seed}, {soaked.offered:g} jobs a second"
    table = Table(title=title, title_justify="left", caption=machine_line(), caption_justify="left")
    for heading in ("at", "lasted"):
        table.add_column(heading, justify="right")
    for heading in ("fault", "whom"):
        table.add_column(heading)
    for heading in ("struck", "refused", "back to 90%"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for each in soaked.happened:
        table.add_row(*_row(each))
    return table


def _row(happened: Happened) -> tuple[str, ...]:
    back = "never" if happened.back is None else f"{happened.back:.1f} s"
    held = f"[green]≤ {PROMPT:g} s[/]" if happened.held else f"[red]> {PROMPT:g} s[/]"
    return (
        f"{happened.began:.1f} s",
        f"{happened.over - happened.began:.1f} s",
        happened.fault,
        happened.whom,
        str(happened.struck),
        str(happened.refused),
        back,
        held if happened.prompt else "",
    )


def show_faults(stage: str, faults: Sequence[Fault], console: Console) -> None:
    table = Table(title=stage, title_justify="left")
    for heading in ("fault", "what happens"):
        table.add_column(heading)
    for fault in faults:
        table.add_row(fault.name, fault.about)
    console.print(table)


def write_json(soaked: Sequence[Soaked], path: Path) -> None:
    """Write all of it, half second by half second."""
    told = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "bin_seconds": BIN,
        "soaks": [{**asdict(each), "ok": each.ok, "prompt": each.prompt} for each in soaked],
    }
    path.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
