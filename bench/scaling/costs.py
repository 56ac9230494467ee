"""What calls cost, read from a run of ``bench costs``: so much for the call, and so much for each job in it."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.cases.costs import CASE as COSTS
from bench.cases.costs import CLAIMERS, OPERATIONS, SIZES, WORKER

SERVER, CLIENT = "µs of the server a call", "µs of the client a call"


class Line(NamedTuple):
    """Seconds for a call, and for each job in it."""

    call: float
    job: float

    def of(self, jobs: float) -> float:
        return self.call + self.job * jobs

    @classmethod
    def through(cls, points: dict[int, float]) -> Line:
        """Fit one, so that small calls and large ones are off by as much in proportion, and neither part negative."""
        weights = {size: 1 / value**2 for size, value in points.items()}
        total = sum(weights.values())
        x = sum(weight * size for size, weight in weights.items()) / total
        y = sum(weight * points[size] for size, weight in weights.items()) / total
        slope = sum(w * (size - x) * (points[size] - y) for size, w in weights.items()) / sum(
            w * (size - x) ** 2 for size, w in weights.items()
        )
        slope = min(max(slope, 0.0), y / x)
        return cls(y - slope * x, slope)


class Costs(NamedTuple):
    """Of one store."""

    store: str
    server: dict[str, Line]  # by operation
    client: dict[str, Line]
    worker: float  # seconds of a worker's own processor for a job, beside its calls
    measured: dict[str, dict[int, float]]  # the server's, by operation and size: microseconds a call
    crowd: dict[int, float]  # by claimers: microseconds of the server a job

    def crowded(self, calls: int) -> float:
        """Say how much dearer a claim and its end are while so many calls are there; what lies between was not tried.

        Nor what lies beyond the largest crowd: there it is taken to stay as it is.
        """
        known = sorted(self.crowd)
        low = max([claimers for claimers in known if claimers <= calls], default=known[0])
        high = min([claimers for claimers in known if claimers >= calls], default=known[-1])
        share = (calls - low) / (high - low) if high > low else 0.0
        return (self.crowd[low] + share * (self.crowd[high] - self.crowd[low])) / self.crowd[known[0]]


def read(path: Path) -> list[Costs]:
    """Read them from what ``./dev bench costs --json`` has written."""
    figures = [figure for figure in json.loads(path.read_text())["figures"] if figure["case"] == COSTS]
    found = {(each["subject"], each["metric"], each["unit"]): median(each["values"]) for each in figures}
    stores = dict.fromkeys(each["subject"] for each in figures if each["unit"] == SERVER)
    worker = next(value for (_, metric, _), value in found.items() if metric == WORKER) / 1e6
    return [_of(store, found, worker) for store in stores]


def _of(store: str, found: dict[tuple[str, str, str], float], worker: float) -> Costs:
    def points(operation: str, unit: str) -> dict[int, float]:
        return {size: found[store, f"{operation} by {size}", unit] for size in SIZES}

    def lines(unit: str) -> dict[str, Line]:
        fitted = {operation: Line.through(points(operation, unit)) for operation in OPERATIONS}
        return {operation: Line(line.call / 1e6, line.job / 1e6) for operation, line in fitted.items()}

    crowd = {
        claimers: value
        for claimers in CLAIMERS
        for (subject, metric, _), value in found.items()
        if subject == store and metric.endswith(f", {claimers} at once")
    }
    measured = {operation: points(operation, SERVER) for operation in OPERATIONS}
    return Costs(store, lines(SERVER), lines(CLIENT), worker, measured, crowd)
