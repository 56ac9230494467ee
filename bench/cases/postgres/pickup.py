"""From one process to another through PostgreSQL: how soon a waiting worker starts a job, beside the peers'."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from statistics import median

from bench.cases.pickup import Turn, follower, tell
from bench.cases.postgres.end_to_end import at
from bench.contenders import OURS_POSTGRES as OURS
from bench.contenders import POSTGRES_PEERS, introduce
from bench.postgres import serving
from bench.run import Run, in_turns, percentile, ratios

CASE = "postgres-pickup"


async def pickup(run: Run) -> None:
    jobs = run.size(60, 20)
    everyone = (OURS, *POSTGRES_PEERS)
    async with serving(run) as server:
        home = at(server)
        await introduce(run, everyone, home)
        contenders: dict[str, Callable[[], Awaitable[Turn]]] = {
            who.subject: partial(follower, run, who, jobs, home) for who in everyone
        }
        found = await in_turns(run.view, CASE, run.size(5, 3), contenders)
    tell(run, CASE, found)
    hold(run, found)


def hold(run: Run, found: dict[str, list[Turn]]) -> None:
    """Since the producer asked: who tells its worker before it answers the producer would have no latency at all."""
    asked = {subject: [percentile(turn.asked, 50) for turn in turns] for subject, turns in found.items()}
    first = min((peer.subject for peer in POSTGRES_PEERS), key=lambda subject: median(asked[subject]))
    run.bar(
        CASE,
        f"PostgreSQL, another process: asked to enqueue → started, p50, over the best peer of the run, {first}",
        "×",
        ratios(asked[OURS.subject], asked[first]),
        at_most=1.0,
    )
