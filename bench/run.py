"""One run: its sizes, where it keeps its files, and what it found."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple, TypeVar

from bench.view import View

T = TypeVar("T")

WORKERS = 1000
"""How many a herd has."""


class Broken(Exception):
    """A job was claimed twice, or not at all, or the log does not fit the jobs: the figures are worth nothing."""


def percentile(values: Sequence[float], share: int) -> float:
    """The value below which so many hundredths of them lie."""
    return median(values) if share == 50 else quantiles(values, n=100, method="inclusive")[share - 1]


class Spread(NamedTuple):
    """The middle of some turns, and the quarter points on both sides."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        if len(values) == 1:
            return cls(values[0], values[0], values[0])
        low, middle, high = quantiles(values, n=4, method="inclusive")
        return cls(middle, low, high)


@dataclass(frozen=True)
class Figure:
    """What one subject did in one case, turn by turn."""

    case: str
    subject: str
    metric: str
    unit: str
    values: list[float]

    @property
    def spread(self) -> Spread:
        return Spread.of(self.values)


@dataclass(frozen=True)
class Bar:
    """What must hold. Exactly one of ``at_least`` and ``at_most`` is given."""

    name: str
    about: str
    unit: str
    values: list[float]
    at_least: float | None = None
    at_most: float | None = None

    @property
    def spread(self) -> Spread:
        return Spread.of(self.values)

    @property
    def held(self) -> bool:
        value = self.spread.median
        if self.at_least is not None:
            return value >= self.at_least
        return self.at_most is not None and value <= self.at_most

    @property
    def limit(self) -> str:
        return f"≥ {self.at_least:,g}" if self.at_least is not None else f"≤ {self.at_most:,g}"


@dataclass
class Run:
    """Handed to every case: it asks for a size or a folder, and leaves figures and bars."""

    folder: Path
    view: View
    beside: Path | None = None  # where servers keep their files: they may run as another user, who cannot look in there
    quick: bool = False
    profile: bool = False
    workers: int = WORKERS  # of a herd
    figures: list[Figure] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    rates: dict[str, dict[str, list[float]]] = field(default_factory=dict)  # of one worker process, by kind of store
    curves: dict[str, dict[str, list[tuple[int, float]]]] = field(default_factory=dict)
    profiles: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    contenders: dict[str, str] = field(default_factory=dict)
    jobs_checked: int = 0
    _folders: Iterator[int] = field(default_factory=count)

    def size(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    @contextmanager
    def fresh(self) -> Iterator[Path]:
        """A new, empty folder that is gone afterwards, so that a million jobs do not lie beside the next million."""
        folder = self.folder / str(next(self._folders))
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def figure(self, case: str, subject: str, metric: str, unit: str, values: Sequence[float]) -> None:
        self.figures.append(Figure(case, subject, metric, unit, list(values)))

    def bar(
        self,
        name: str,
        about: str,
        unit: str,
        values: Sequence[float],
        *,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> None:
        self.bars.append(Bar(name, about, unit, list(values), at_least, at_most))


async def in_turns(
    view: View, about: str, turns: int, contenders: dict[str, Callable[[], Awaitable[T]]]
) -> dict[str, list[T]]:
    """Let each contender have its turn, again and again, and begin with another one each time.

    A machine that is slow for a while is then slow for all of them, and who comes first gains nothing by it.
    """
    values: dict[str, list[T]] = {name: [] for name in contenders}
    names = list(contenders)
    with view.step(about, turns * len(names)) as step:
        for turn in range(turns):
            shift = turn % len(names)
            for name in names[shift:] + names[:shift]:
                values[name].append(await contenders[name]())
                step.advance()
    return values


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Ours over theirs, each by what was measured in the same turn."""
    return [our / their for our, their in zip(ours, theirs, strict=True)]


def best(rates: dict[str, list[float]]) -> str:
    """Who did most in the run, by the median of its turns."""
    return max(rates, key=lambda name: median(rates[name]))
