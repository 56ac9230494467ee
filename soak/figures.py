"""Throughput and latency through time, and how long it took until work went on as before."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median, quantiles

BIN = 0.5
WARM = 5.0
"""Seconds before the first fault, whose throughput is what must be reached again after each."""
WINDOW = 1.0
SHARE = 0.9


@dataclass(frozen=True)
class Moment:
    """Half a second. Latency is from the acknowledgement of an enqueue to the end of its handler."""

    at: float
    ended: int
    refused: int
    p50: float | None
    p95: float | None


def through_time(
    acknowledged: Mapping[str, float],
    ended: Mapping[str, float],
    refused: Sequence[float],
    began: float,
    over: float,
) -> list[Moment]:
    """Sort what happened into half seconds; times are counted from the beginning."""
    number = max(1, ceil((over - began) / BIN))
    jobs, refusals = [0] * number, [0] * number
    latencies: list[list[float]] = [[] for _ in range(number)]
    for job, at in ended.items():
        if began <= at < began + number * BIN:
            place = int((at - began) / BIN)
            jobs[place] += 1
            if job in acknowledged:  # a handler may be quicker than the answer to who enqueued
                latencies[place].append(max(0.0, at - acknowledged[job]))
    for at in refused:
        if began <= at < began + number * BIN:
            refusals[int((at - began) / BIN)] += 1
    return [
        Moment(place * BIN, jobs[place], refusals[place], percentile(found, 50), percentile(found, 95))
        for place, found in enumerate(latencies)
    ]


def percentile(values: Sequence[float], share: int) -> float | None:
    if len(values) < 2:
        return values[0] if values else None
    return median(values) if share == 50 else quantiles(values, n=100, method="inclusive")[share - 1]


def rate(times: Sequence[float], begin: float, end: float) -> float:
    """How many a second there were between two moments, of times in their order."""
    return (bisect_left(times, end) - bisect_left(times, begin)) / (end - begin)


def back_after(times: Sequence[float], hit: float, usual: float, now: float) -> float | None:
    """Say how long after the hit a job ends with which a second of nine tenths of the usual throughput begins.

    None: there was no such job yet. What a second has must be known, so it has to have passed.
    """
    for at in times[bisect_left(times, hit) :]:
        if at + WINDOW > now:
            return None
        if rate(times, at, at + WINDOW) >= SHARE * usual:
            return round(at - hit, 1)
    return None
