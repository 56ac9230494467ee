"""The tables and the picture of docs/explanation/scaling.md, from what was measured and simulated."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from bench.plot import COLOURS, DASHES

WIDTH, HEIGHT = 420, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 16, 44, 44
FULL = 0.95
"""The part of the servers' time from which they are as good as busy."""

Simulated = list[dict[str, Any]]  # of one profile on one place: workers, rate, busy, claimed


def costs_table(costs: list[dict[str, Any]]) -> str:
    """What a call costs the server, as it was measured, and the line through that."""
    lines = ["| | by 1 | by 10 | by 100 | that is |", "|---|---|---|---|---|"]
    for store in costs:
        for operation, sizes in store["measured"].items():
            cells = " | ".join(f"{value:,.0f} µs" for value in sizes.values())
            line = store["server"][operation]
            about = f"{1e6 * line['call']:,.0f} µs a call, {1e6 * line['job']:,.1f} µs a job"
            lines.append(f"| {store['store']}: {operation} | {cells} | {about} |")
    return "\n".join(lines)


def crowds_table(costs: list[dict[str, Any]]) -> str:
    """What a job costs the server if so many claim at once."""
    claimers = list(costs[0]["crowd"])
    lines = [f"| | {' | '.join(f'{number} at once' for number in claimers)} |", "|---|" + "---|" * len(claimers)]
    lines += [
        f"| {store['store']} | {' | '.join(f'{value:,.0f} µs' for value in store['crowd'].values())} |"
        for store in costs
    ]
    return "\n".join(lines)


def carried_table(simulated: list[dict[str, Any]]) -> str:
    """How much each place carries, and from how many workers on its servers have no more to give."""
    lines = [
        "| | profile | on paper | its processors are busy from | simulated, at most | with | a claim gets then |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in simulated:
        points: Simulated = each["points"]
        most = max(points, key=lambda point: point["rate"])
        full = next((point for point in points if point["busy"] >= FULL), None)
        full_from = f"{full['workers']} workers, {_rate(full['rate'])}" if full else f"not with {points[-1]['workers']}"
        said = [each["place"], each["profile"], _rate(each["paper"]), full_from, _rate(most["rate"])]
        lines.append(f"| {' | '.join(said)} | {most['workers']} workers | {most['claimed']:.1f} jobs |")
    return "\n".join(lines)


def _rate(value: float) -> str:
    """Two figures are as many as such a number deserves."""
    step = 10 ** max(0, math.floor(math.log10(value)) - 1)
    return f"{round(value / step) * step:,.0f} jobs/s"


def put(page: str, name: str, text: str) -> str:
    pattern = re.compile(rf"(<!-- {name}: [^\n]*-->\n).*?(<!-- end of {name} -->)", re.DOTALL)
    if not pattern.search(page):
        sys.exit(f"the page has no place for the {name}")
    return pattern.sub(lambda match: f"{match[1]}{text}\n{match[2]}", page)


def draw(simulated: list[dict[str, Any]], path: Path) -> None:
    """Draw jobs a second against workers, a panel for each profile, both by powers."""
    profiles = list(dict.fromkeys(each["profile"] for each in simulated))
    panels = []
    for index, profile in enumerate(profiles):
        lines = {each["place"]: each["points"] for each in simulated if each["profile"] == profile}
        panels.append(f'<g transform="translate({index * WIDTH},0)">{"".join(_panel(profile, lines))}</g>')
    width = WIDTH * len(profiles)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" width="{width}" height="{HEIGHT}" '
        f'font-family="sans-serif" font-size="11" fill="#333"><rect width="100%" height="100%" fill="#fff"/>'
        f"{''.join(panels)}</svg>\n",
        encoding="utf-8",
    )


def _panel(profile: str, lines: dict[str, Simulated]) -> Iterator[str]:
    points = [point for line in lines.values() for point in line]
    most = max(point["workers"] for point in points)
    low, high = (
        math.floor(math.log10(min(point["rate"] for point in points))),
        math.ceil(math.log10(max(point["rate"] for point in points))),
    )

    def x(workers: float) -> float:
        return LEFT + math.log2(workers) / max(1.0, math.log2(most)) * (WIDTH - LEFT - RIGHT)

    def y(rate: float) -> float:
        return HEIGHT - BOTTOM - (math.log10(rate) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    yield f'<text x="{LEFT}" y="18" font-size="13" font-weight="bold">{escape(profile)}</text>'
    for power in range(low, high + 1):
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(10**power):.1f}" y2="{y(10**power):.1f}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 6}" y="{y(10**power) + 4:.1f}" text-anchor="end">{10**power:,}</text>'
    for workers in sorted({point["workers"] for point in points}):
        yield f'<text x="{x(workers):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{workers}</text>'
    yield f'<text x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 8}" text-anchor="middle">workers (jobs a second upwards)</text>'
    for index, (place, line) in enumerate(lines.items()):
        colour, dash = COLOURS[index % len(COLOURS)], DASHES[(index + index // len(COLOURS)) % len(DASHES)]
        style = f'stroke="{colour}" stroke-dasharray="{dash}" fill="none" stroke-width="2"'
        drawn = " ".join(f"{x(point['workers']):.1f},{y(point['rate']):.1f}" for point in line)
        yield f'<polyline points="{drawn}" {style}/>'
        yield f'<line x1="{LEFT + 8}" x2="{LEFT + 34}" y1="{TOP + 14 * index}" y2="{TOP + 14 * index}" {style}/>'
        yield f'<text x="{LEFT + 40}" y="{TOP + 4 + 14 * index}">{escape(place)}</text>'


def powers(most: int) -> Sequence[int]:
    return [2**power for power in range(most.bit_length())]
