"""From one process to another on one SQLite file: how soon a job is started, and what it costs to wait for one."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from statistics import median
from typing import NamedTuple

from bench.children import started
from bench.contenders import ON_SQLITE, Contender, Field, Home, files, introduce, prove_numbers
from bench.places import Place, at
from bench.run import Run, in_turns, percentile, ratios
from bench.subjects import opened, prove_log, prove_once, url_of

AT_MOST_MS = 5.0
IDLE_AT_MOST = 2.0
CLAIM = "dibs claim, sqlite"


async def pickup(run: Run) -> None:
    jobs, idle = run.size(100, 40), run.size(10, 4)
    followers = [who for who in ON_SQLITE.everyone if who.follows]
    await introduce(run, followers)
    contenders: dict[str, Callable[[], Awaitable[Turn]]] = {
        who.subject: partial(follower, run, who, jobs) for who in followers
    }
    found = await in_turns(
        run.view,
        "pickup from another process",
        run.size(5, 3),
        {CLAIM: partial(_claimer, run, jobs, idle)} | contenders,
    )
    tell(run, "pickup", found)
    run.bar(
        "pickup",
        "SQLite, another process: enqueue acknowledged → claimed, p50",
        "ms",
        [percentile(turn.told, 50) for turn in found[CLAIM]],
        at_most=AT_MOST_MS,
    )
    run.bar(
        "pickup-idle",
        "SQLite: CPU of a process that waits for a job, of one core",
        "%",
        [100 * turn.burnt for turn in found[CLAIM]],
        at_most=IDLE_AT_MOST,
    )


def tell(run: Run, case: str, found: dict[str, list[Turn]]) -> None:
    """Leave the figures of all who took part."""
    for subject, turns in found.items():
        for share in (50, 95, 99):
            told = [percentile(turn.told, share) for turn in turns]
            run.figure(case, subject, f"acknowledged → started, p{share}", "ms", told)
        asked = [percentile(turn.asked, 50) for turn in turns]
        run.figure(case, subject, "asked to enqueue → started, p50", "ms", asked)


async def pickup_on(run: Run, case: str, place: Place, field: Field, *, at_most: float) -> None:
    """On a server: how soon a waiting worker starts a job of another process, beside the peers'."""
    jobs, home = run.size(60, 20), at(place)
    await introduce(run, field.everyone, home)
    contenders: dict[str, Callable[[], Awaitable[Turn]]] = {
        who.subject: partial(follower, run, who, jobs, home) for who in field.everyone
    }
    found = await in_turns(run.view, case, run.size(5, 3), contenders)
    tell(run, case, found)
    hold(run, case, field, found, at_most=at_most)


def hold(run: Run, case: str, field: Field, found: dict[str, list[Turn]], *, at_most: float) -> None:
    """Since the producer asked: who tells its worker before it answers the producer would have no latency at all."""
    asked = {subject: [percentile(turn.asked, 50) for turn in turns] for subject, turns in found.items()}
    first = min((peer.subject for peer in field.peers), key=lambda subject: median(asked[subject]))
    run.bar(
        case,
        f"{field.title}, another process: asked to enqueue → started, p50, over the best peer of the run, {first}",
        "×",
        ratios(asked[field.ours.subject], asked[first]),
        at_most=at_most,
    )


class Turn(NamedTuple):
    """Milliseconds until each job was started, and the part of a core that waiting took before the first came."""

    told: list[float]  # since the producer was told that it is enqueued
    asked: list[float]  # since the producer asked
    burnt: float = 0.0

    @classmethod
    def of(cls, produced: Iterable[tuple[object, float, float]], begun: Iterable[tuple[object, float]]) -> Turn:
        acknowledged = {job: (asked, told) for job, asked, told in produced}
        begun = list(begun)
        # It may be started before the enqueue comes back: then there was nothing to wait for.
        told = [1e3 * max(0.0, at - acknowledged[job][1]) for job, at in begun]
        return cls(told, [1e3 * (at - acknowledged[job][0]) for job, at in begun])


async def _claimer(run: Run, jobs: int, idle: float) -> Turn:
    with run.fresh() as folder:
        url = url_of("sqlite", folder)
        program = (sys.executable, "-m", "bench.processes")
        async with started("the claimer", *program, "claim", url, str(jobs), str(idle)) as claimer:
            burnt = (await claimer.line())["burnt"]  # it has waited in vain, and goes on waiting
            async with started("the producer", *program, "produce", url, str(jobs), "0") as producer:
                produced = (await producer.line())["jobs"]
            claimed = (await claimer.line())["claimed"]
        prove_once(run, [id for id, _ in claimed], jobs)
        async with opened("sqlite", folder) as store:
            await prove_log(run, store, "pickup", jobs)
    return Turn.of(produced, claimed)._replace(burnt=burnt)


async def follower(run: Run, who: Contender, jobs: int, home: Home = files) -> Turn:
    """One process enqueues, the contender's worker in another starts what comes."""
    async with home(run) as folder:
        async with who.program("follow", folder, jobs) as worker:
            await worker.line()  # it is ready
            produced = (await who.ask("produce", folder, jobs))["jobs"]
            news = await worker.line()
        prove_numbers(run, who, [number for number, _ in news["handled"]], news["left"], jobs)
    return Turn.of(produced, news["handled"])
