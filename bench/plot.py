"""An SVG, drawn by hand: a panel for each store with the rates of ours and the peers, and one with its claim cost.

Claim cost is drawn against what is stored, one line for each shape.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape
from pathlib import Path

from bench.run import Spread

WIDTH, HEIGHT = 380, 280
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 40, 44
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # told apart by colour-blind eyes, too
DASHES = ("", "6 3", "2 3", "8 3 2 3")

Curves = dict[str, dict[str, list[tuple[int, float]]]]


Rates = dict[str, list[float]]


def write_plot(curves: Curves, rates: dict[str, Rates], path: Path) -> None:
    """Write the file; the value axis begins at zero, so that flat looks flat and steep looks steep."""
    panels = ["".join(_bars(found, f"jobs a second on {store}")) for store, found in rates.items()]
    legend = f'<g transform="translate({WIDTH * len(panels)},0)">{"".join(_legend(curves))}</g>' if curves else ""
    panels += ["".join(_panel(store, lines)) for store, lines in curves.items()]
    width, height = WIDTH * len(panels), HEIGHT + 26
    placed = (f'<g transform="translate({index * WIDTH},0)">{panel}</g>' for index, panel in enumerate(panels))
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="11" fill="#333"><rect width="100%" height="100%" fill="#fff"/>'
        f"{''.join(placed)}{legend}</svg>\n",
        encoding="utf-8",
    )


def _bars(rates: Rates, about: str) -> Iterator[str]:
    """Lying bars, ours in another colour; a thin line from one quarter point to the other."""
    name_width, number_width = 170, 56
    spreads = {name: Spread.of(values) for name, values in rates.items()}
    scale = (WIDTH - name_width - number_width) / max(spread.high for spread in spreads.values())
    step = (HEIGHT - TOP) / len(spreads)
    yield f'<text x="{LEFT}" y="22" font-size="13" font-weight="bold">one worker process: {escape(about)}</text>'
    for index, (name, spread) in enumerate(spreads.items()):
        y, colour = TOP + step * (index + 0.5), COLOURS[0 if name.startswith("dibs") else 1]
        yield f'<text x="{name_width - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(name)}</text>'
        size = f'width="{spread.median * scale:.1f}" height="{step / 2:.1f}"'
        yield f'<rect x="{name_width}" y="{y - step / 4:.1f}" {size} fill="{colour}"/>'
        low, high = (name_width + value * scale for value in (spread.low, spread.high))
        yield f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="#333"/>'
        yield f'<text x="{high + 6:.1f}" y="{y + 4:.1f}">{spread.median:,.0f}</text>'


def _panel(store: str, lines: dict[str, list[tuple[int, float]]]) -> Iterator[str]:
    points = [point for line in lines.values() for point in line]
    low, high = math.log10(min(x for x, _ in points)), math.log10(max(x for x, _ in points))
    step = _nice(max(y for _, y in points) / 4)
    top = step * math.ceil(1.1 * max(y for _, y in points) / step)

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - low) / ((high - low) or 1)
        return (
            LEFT + across * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - y / top * (HEIGHT - TOP - BOTTOM),
        )

    yield f'<text x="{LEFT}" y="22" font-size="13" font-weight="bold">{escape(store)}: p50 of one claim, µs</text>'
    for tick in range(round(top / step) + 1):
        _, y = place(10**low, tick * step)
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick * step:g}</text>'
    for x_value in sorted({x for x, _ in points}):
        x, y = place(x_value, 0)
        yield f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{x_value:,}</text>'
    yield f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">jobs in the way</text>'
    for index, line in enumerate(lines.values()):
        places = [place(x, y) for x, y in line]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        yield (
            f'<polyline points="{path}" fill="none" stroke="{COLOURS[index % 4]}" stroke-width="2" '
            f'stroke-dasharray="{DASHES[index % 4]}"/>'
        )
        for x, y in places:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{COLOURS[index % 4]}"/>'


def _legend(curves: Curves) -> Iterator[str]:
    names = next(iter(curves.values()))
    for index, name in enumerate(names):
        x, y = LEFT + index * 110, HEIGHT + 10
        yield (
            f'<line x1="{x}" x2="{x + 26}" y1="{y}" y2="{y}" stroke="{COLOURS[index % 4]}" stroke-width="2" '
            f'stroke-dasharray="{DASHES[index % 4]}"/><text x="{x + 32}" y="{y + 4}">{escape(name)}</text>'
        )


def _nice(rough: float) -> float:
    """The round number at or above: 1, 2 or 5 times a power of ten."""
    power = math.pow(10, math.floor(math.log10(rough)))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
