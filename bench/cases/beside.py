"""Claim and settle on a server, by 100 beside the bare driver; and ten who claim one job at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from bench.cases.batch import ahead, ours, rate_of, through_broker, through_store
from bench.cases.claimers import turn as ten_claimers
from bench.places import Place
from bench.run import Run, in_turns
from bench.subjects import PARAMS_JSON

SIZE = 100

Bare = Callable[[str, int, bytes, int], Awaitable[tuple[float, list[object]]]]
"""Given a URL, how many jobs, their params and how many to a batch: seconds, and what was claimed."""


async def beside(run: Run, case: str, place: Place, driver: str, bare: Bare) -> dict[str, list[float]]:
    """Leave the figures; give the rates of those who claim by the hundred, as the bars need them."""
    jobs, singles = run.size(20_000, 4_000), run.size(5_000, 1_000)
    broker, ten = f"dibs broker, {place.store}", f"dibs {place.store}, ten claimers, one job at a time"
    found = await in_turns(
        run.view,
        case,
        run.size(5, 3),
        {
            broker: partial(ours, run, place, ahead, jobs, SIZE),
            f"{broker}, one after the other": partial(ours, run, place, through_broker, jobs, SIZE),
            f"dibs store, {place.store}": partial(ours, run, place, through_store, jobs, SIZE),
            driver: partial(_bare, place, bare, jobs),
            ten: partial(ten_claimers, run, place, singles),
        },
    )
    for subject, rates in found.items():
        run.figure(case, subject, "claim+complete" if subject == ten else f"claim+settle by {SIZE}", "/s", rates)
    return found


async def _bare(place: Place, bare: Bare, jobs: int) -> float:
    async with place.database() as url:
        seconds, claimed = await bare(url, jobs, PARAMS_JSON, SIZE)
    return rate_of(jobs, seconds, claimed)
