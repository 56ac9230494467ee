"""An SVG, drawn by hand: for each stage its throughput, and below it latency, through time; faults are shaded."""

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path

from bench.plot import COLOURS
from soak.figures import BIN
from soak.run import Happened, Soaked

LEFT, RIGHT, TOP = 56, 16, 96
UPPER, LOWER, GAP, FOOT = 130, 110, 26, 40
HEIGHT = TOP + UPPER + GAP + LOWER + FOOT
SECOND = 6
"""Pixels for each."""
SHORTEST = 0.01
"""Seconds: less than that is drawn as that much, since the axis of latency is by powers of ten."""

Place = Callable[[float], float]


def write_plot(soaked: Sequence[Soaked], path: Path) -> None:
    """Write the file, one stage below the other."""
    width = max(_width(each) for each in soaked)
    panels = [
        f'<g transform="translate(0,{number * HEIGHT})">{"".join(_panel(each))}</g>'
        for number, each in enumerate(soaked)
    ]
    height = HEIGHT * len(panels)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="11" fill="#333"><rect width="100%" height="100%" fill="#fff"/>'
        f"{''.join(panels)}</svg>\n",
        encoding="utf-8",
    )


def _width(soaked: Soaked) -> int:
    return LEFT + RIGHT + max(600, math.ceil(SECOND * soaked.seconds))


def _panel(soaked: Soaked) -> Iterator[str]:
    def across(at: float) -> float:
        return LEFT + min(1.0, at / max(soaked.seconds, BIN)) * (_width(soaked) - LEFT - RIGHT)

    verdict = "every promise kept" if soaked.ok else "BROKEN"
    about = f"{soaked.stage}: {soaked.verdict.jobs:,} jobs, {len(soaked.happened)} faults, {verdict}"
    yield f'<text x="{LEFT}" y="18" font-size="13" font-weight="bold">{escape(about)}</text>'
    yield from _marks(soaked.happened, across)
    yield from _throughput(soaked, across)
    yield from _latency(soaked, across)
    yield from _seconds(soaked, across)


def _marks(happened: Sequence[Happened], across: Place) -> Iterator[str]:
    """Shade each fault for as long as it lasted, with its name written upwards, and say when throughput was back."""
    bottom = TOP + UPPER + GAP + LOWER
    for each in happened:
        x, width = across(each.began), max(1.5, across(each.over) - across(each.began))
        yield f'<rect x="{x:.1f}" y="{TOP}" width="{width:.1f}" height="{bottom - TOP}" fill="#d55e00" opacity="0.15"/>'
        yield (
            f'<text transform="translate({x + 6:.1f},{TOP - 4}) rotate(-50)" font-size="9">{escape(each.fault)}</text>'
        )
        if each.back is not None:
            back = across(each.hit + each.back)
            yield f'<path d="M{back:.1f},{TOP + UPPER} l-3,6 h6 z" fill="{COLOURS[2]}"/>'


def _throughput(soaked: Soaked, across: Place) -> Iterator[str]:
    rates = [moment.ended / BIN for moment in soaked.moments]
    top = max([*rates, soaked.offered]) * 1.05
    floor = TOP + UPPER

    def up(rate: float) -> float:
        return floor - rate / top * UPPER

    yield from _scale([0, soaked.offered, round(top)], up, "{:g}", soaked)
    yield _title(TOP + 10, "jobs ended a second", COLOURS[0], soaked)
    points = " ".join(
        f"{across(moment.at + BIN / 2):.1f},{up(rate):.1f}" for moment, rate in zip(soaked.moments, rates, strict=True)
    )
    yield f'<polyline points="{points}" fill="none" stroke="{COLOURS[0]}" stroke-width="1.5"/>'
    for moment in soaked.moments:
        if moment.refused:
            yield f'<circle cx="{across(moment.at + BIN / 2):.1f}" cy="{floor - 3}" r="2" fill="{COLOURS[1]}"/>'


def _latency(soaked: Soaked, across: Place) -> Iterator[str]:
    top = TOP + UPPER + GAP
    highest = max([1.0, *(moment.p95 for moment in soaked.moments if moment.p95 is not None)])
    low, high = math.log10(SHORTEST), math.ceil(math.log10(highest))

    def up(seconds: float) -> float:
        return top + LOWER - (math.log10(max(seconds, SHORTEST)) - low) / (high - low) * LOWER

    yield from _scale([10.0**power for power in range(round(low), high + 1)], up, "{:g} s", soaked)
    yield _title(top + 10, "latency: p50 and p95", COLOURS[3], soaked)
    for values, dash in (([m.p50 for m in soaked.moments], ""), ([m.p95 for m in soaked.moments], "3 2")):
        for stretch in _stretches(values):
            ends = [*stretch, stretch[-1]]  # so that one alone is a dot
            points = " ".join(f"{across((place + 0.5) * BIN):.1f},{up(value):.1f}" for place, value in ends)
            yield (
                f'<polyline points="{points}" fill="none" stroke="{COLOURS[3]}" stroke-width="1.2" '
                f'stroke-linecap="round" stroke-dasharray="{dash}"/>'
            )


def _stretches(values: Sequence[float | None]) -> Iterator[list[tuple[int, float]]]:
    """Split where nothing ended: no line is drawn over what is not known."""
    stretch: list[tuple[int, float]] = []
    for place, value in enumerate(values):
        if value is not None:
            stretch.append((place, value))
        elif stretch:
            yield stretch
            stretch = []
    if stretch:
        yield stretch


def _scale(ticks: Sequence[float], up: Place, form: str, soaked: Soaked) -> Iterator[str]:
    for tick in ticks:
        y = up(tick)
        yield f'<line x1="{LEFT}" x2="{_width(soaked) - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{form.format(tick)}</text>'


def _title(y: float, text: str, colour: str, soaked: Soaked) -> str:
    return f'<text x="{_width(soaked) - RIGHT - 4}" y="{y}" text-anchor="end" fill="{colour}">{text}</text>'


def _seconds(soaked: Soaked, across: Place) -> Iterator[str]:
    y = TOP + UPPER + GAP + LOWER + 14
    step = 10 if soaked.seconds < 300 else 60
    for at in range(0, int(soaked.seconds) + 1, step):
        yield f'<text x="{across(at):.1f}" y="{y}" text-anchor="middle">{at} s</text>'
