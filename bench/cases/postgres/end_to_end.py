"""From a full table to an empty one on PostgreSQL: a no-op handler, one worker process, dibs and its peers in turns.

Until drained: from the first job's start until the store shows nothing left, for everyone. Several of them write
completions behind their handlers, so starts alone would say little.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from bench.contenders import OURS_POSTGRES as OURS
from bench.contenders import POSTGRES_PEERS, Contender, Drained, drain, introduce
from bench.places import at
from bench.postgres import serving
from bench.run import Run, in_turns, ratios

CASE = "postgres"
EMPTIED = "jobs, first start → nothing left"
TIMES = {"pgqueuer": 1.3, "awa-pg": 3.0, "chancy": 5.0, "saq": 5.0, "procrastinate": 5.0}
LATER = {"pgqueuer": 3.0}
"""With three times the jobs: its rate goes down as they pile up."""
STEADY = 0.85
LARGE = Contender("pgqueuer by 1,000,", "bench.peers.pgqueuer_large", "pgqueuer", store="postgres")

Found = dict[str, list[Drained]]


async def postgres(run: Run) -> None:
    small, middle, large = run.size(20_000, 4_000), run.size(60_000, 8_000), run.size(200_000, 20_000)
    async with serving(run) as server:
        home = at(server)
        everyone = (OURS, *POSTGRES_PEERS, LARGE)
        await introduce(run, everyone, home)
        sizes = {small: everyone, middle: (OURS, POSTGRES_PEERS[0], LARGE), large: (OURS,)}
        contenders: dict[str, Callable[[], Awaitable[Drained]]] = {
            named(who, jobs): partial(drain, run, who, jobs, home) for jobs, whose in sizes.items() for who in whose
        }
        found = await in_turns(run.view, CASE, run.size(5, 3), contenders)
    for name, turns in found.items():
        run.figure(CASE, name, EMPTIED, "/s", _rates(turns))
    run.rates["PostgreSQL"] = {
        named(who, jobs): _rates(found[named(who, jobs)]) for jobs in (small, middle) for who in sizes[jobs]
    }
    hold(run, found, small, middle, large)


def hold(run: Run, found: Found, small: int, middle: int, large: int) -> None:
    """The bars: each a ratio of what was measured in the same turn."""
    for jobs, times in ((small, TIMES), (middle, {} if run.quick else LATER)):
        mine = _rates(found[named(OURS, jobs)])
        for peer in POSTGRES_PEERS:
            if peer.name in times:
                run.bar(
                    f"{CASE}-{peer.name}" if jobs == small else f"{CASE}-{peer.name}-{jobs // 1000}k",
                    f"one worker process on PostgreSQL until nothing is left, {jobs:,} jobs, over {named(peer, jobs)}",
                    "×",
                    ratios(mine, _rates(found[named(peer, jobs)])),
                    at_least=times[peer.name],
                )
    run.bar(
        f"{CASE}-steady",
        f"one worker process on PostgreSQL: its rate with {large:,} jobs, over that with {small:,}",
        "×",
        ratios(_rates(found[named(OURS, large)]), _rates(found[named(OURS, small)])),
        at_least=STEADY,
    )


def named(who: Contender, jobs: int) -> str:
    return f"{who.subject}, {int(jobs * who.share):,} jobs"


def _rates(turns: list[Drained]) -> list[float]:
    return [turn.emptied for turn in turns]
