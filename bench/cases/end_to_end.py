"""From a full store to an empty one: a no-op handler, one worker process, dibs and its peers in turns.

dibs settles in batches, behind its handlers, so what counts is when its store shows nothing left. For a peer the better
of two rates counts: that one, and the one from the first job's start to the last one's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from bench.cases.batch import ahead, ours
from bench.contenders import ON_SQLITE, Contender, Drained, Field, drain, introduce
from bench.places import Files
from bench.run import Run, best, in_turns, ratios

CASE = "end-to-end"
TIMES = 6.0
SHARE = 0.4
"""The part of the broker's own rate that is left when handlers, heartbeats and middleware have had theirs."""
BROKER = "dibs broker, sqlite"
STARTED, EMPTIED = "jobs, first start → last start", "jobs, first start → nothing left"
FOR_CPU = "jobs for a second of the worker's CPU"


async def end_to_end(run: Run) -> None:
    await introduce(run, ON_SQLITE.everyone)
    jobs = run.size(20_000, 2_000)
    contenders: dict[str, Callable[[], Awaitable[Drained]]] = {
        who.subject: partial(drain, run, who, jobs) for who in ON_SQLITE.everyone
    }
    contenders[BROKER] = partial(_broker, run, jobs)
    found = await in_turns(run.view, CASE, run.size(5, 3), contenders)
    by_broker = [turn.emptied for turn in found.pop(BROKER)]
    tell(run, CASE, ON_SQLITE, found, jobs)
    run.figure(CASE, BROKER, "claim+settle by 100, no worker", "/s", by_broker)
    hold(run, found, by_broker)


def tell(run: Run, case: str, field: Field, found: dict[str, list[Drained]], jobs: int) -> None:
    """Leave the figures of all who took part."""
    for who in field.everyone:
        name = _named(who, jobs)
        run.figure(case, name, EMPTIED, "/s", [turn.emptied for turn in found[who.subject]])
        run.figure(case, name, STARTED, "/s", [turn.starts for turn in found[who.subject]])
        run.figure(case, name, FOR_CPU, "/s", [turn.for_cpu for turn in found[who.subject]])


def hold(run: Run, found: dict[str, list[Drained]], by_broker: list[float]) -> None:
    """The bars: each a ratio of what was measured in the same turn."""
    mine = over_the_best(run, CASE, ON_SQLITE, found, at_least=TIMES)
    run.bar(
        "worker-overhead",
        "one worker process on SQLite, over claim+settle of 100 through the broker without one",
        "×",
        ratios(mine, by_broker),
        at_least=SHARE,
    )


def over_the_best(
    run: Run, case: str, field: Field, found: dict[str, list[Drained]], *, at_least: float
) -> list[float]:
    """Ours until nothing is left, over the best peer's better rate; give ours."""
    mine = [turn.emptied for turn in found[field.ours.subject]]
    theirs = {who.subject: [turn.better for turn in found[who.subject]] for who in field.peers}
    first = best(theirs)
    run.rates[field.title] = {field.ours.subject: mine} | theirs
    run.bar(
        case,
        f"one worker process on {field.title} until nothing is left, over the best peer of the run, {first}",
        "×",
        ratios(mine, theirs[first]),
        at_least=at_least,
    )
    return mine


async def _broker(run: Run, jobs: int) -> Drained:
    rate = await ours(run, Files(run, "sqlite"), ahead, jobs, 100)
    return Drained(rate, rate)


def _named(who: Contender, jobs: int) -> str:
    return who.subject if who.share == 1 else f"{who.subject}, {int(jobs * who.share):,} jobs"
