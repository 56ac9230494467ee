"""From a full store to an empty one: a no-op handler, one worker process, dibs and its peers in turns.

dibs settles in batches, behind its handlers, so what counts is when its store shows nothing left. For a peer the better
of two rates counts: that one, and the one from the first job's start to the last one's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from bench.cases.batch import ahead, ours
from bench.contenders import OURS, PEERS, Contender, Drained, drain, introduce
from bench.run import Run, best, in_turns, ratios

CASE = "end-to-end"
TIMES = 6.0
SHARE = 0.4
"""The part of the broker's own rate that is left when handlers, heartbeats and middleware have had theirs."""
BROKER = "dibs broker, sqlite"
STARTED, EMPTIED = "jobs, first start → last start", "jobs, first start → nothing left"


async def end_to_end(run: Run) -> None:
    await introduce(run, (OURS, *PEERS))
    jobs = run.size(20_000, 2_000)
    contenders: dict[str, Callable[[], Awaitable[Drained]]] = {
        who.subject: partial(drain, run, who, jobs) for who in (OURS, *PEERS)
    }
    contenders[BROKER] = partial(_broker, run, jobs)
    found = await in_turns(run.view, CASE, run.size(5, 3), contenders)
    by_broker = [turn.emptied for turn in found.pop(BROKER)]
    for who in (OURS, *PEERS):
        name = _named(who, jobs)
        run.figure(CASE, name, EMPTIED, "/s", [turn.emptied for turn in found[who.subject]])
        run.figure(CASE, name, STARTED, "/s", [turn.starts for turn in found[who.subject]])
    run.figure(CASE, BROKER, "claim+settle by 100, no worker", "/s", by_broker)
    hold(run, found, by_broker)


def hold(run: Run, found: dict[str, list[Drained]], by_broker: list[float]) -> None:
    """The bars: each a ratio of what was measured in the same turn."""
    mine = [turn.emptied for turn in found[OURS.subject]]
    theirs = {who.subject: [max(turn) for turn in found[who.subject]] for who in PEERS}
    first = best(theirs)
    run.rates = {OURS.subject: mine} | theirs
    run.bar(
        CASE,
        f"one worker process on SQLite until nothing is left, over the best peer of the run, {first}",
        "×",
        ratios(mine, theirs[first]),
        at_least=TIMES,
    )
    run.bar(
        "worker-overhead",
        "one worker process on SQLite, over claim+settle of 100 through the broker without one",
        "×",
        ratios(mine, by_broker),
        at_least=SHARE,
    )


async def _broker(run: Run, jobs: int) -> Drained:
    rate = await ours(run, "sqlite", ahead, jobs, 100)
    return Drained(rate, rate)


def _named(who: Contender, jobs: int) -> str:
    return who.subject if who.share == 1 else f"{who.subject}, {int(jobs * who.share):,} jobs"
