"""One soak: everyone starts, faults happen one after another, work drains, and all of it is judged."""

import asyncio
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import dibs
from soak.cast import Cast, Member
from soak.check import Verdict, judge
from soak.faults import Act, Fault, faults_of
from soak.figures import WARM, Moment, back_after, rate, through_time
from soak.seen import Seen
from soak.stages import Stage
from tests.chaos.histories import recording

STARTING = 60.0
"""Seconds at the most until every process has worked."""
LOOK = 0.25
BACK = 45.0
"""Seconds at the most that are waited for throughput to be back, before the next fault."""
DRAIN = 120.0
PROMPT = 10.0
"""Seconds after a restart, a killed API server or a failover until throughput must be back to 90%."""

Say = Callable[[str], None]


@dataclass
class Happened:
    """A fault that was. Times are seconds from the beginning."""

    fault: str
    whom: str
    began: float
    hit: float
    over: float
    struck: int
    back: float | None = None
    refused: int = 0
    prompt: bool = False

    @property
    def held(self) -> bool:
        """Say whether work went on soon enough, where that is promised."""
        return not self.prompt or (self.back is not None and self.back <= PROMPT)


@dataclass
class Refusals:
    """What producers were told in place of an acknowledgement, by the error beneath."""

    first: str
    times: int = 0


@dataclass
class Soaked:
    """What a soak has shown."""

    stage: str
    seed: int
    offered: float
    usual: float = 0.0
    seconds: float = 0.0
    moments: list[Moment] = field(default_factory=list)
    happened: list[Happened] = field(default_factory=list)
    refusals: dict[str, Refusals] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    verdict: Verdict = field(default_factory=Verdict)

    @property
    def ok(self) -> bool:
        return not self.verdict.problems

    @property
    def prompt(self) -> bool:
        return all(happened.held for happened in self.happened)


class Soak:
    """On one stage."""

    def __init__(self, stage: Stage, folder: Path, *, rate: float, seed: int, quiet: float, say: Say) -> None:
        self._stage, self._folder, self._rate, self._quiet, self._say = stage, folder, rate, quiet, say
        self._rng = random.Random(seed)
        self._seen = Seen(folder)
        self._cast: Cast = stage.cast(folder, rate)
        self._result = Soaked(stage.name, seed, rate, left_out=stage.left_out)
        self._problems: list[str] = []
        self._began = 0.0

    async def run(self, seconds: float, rounds: int | None = None, only: list[str] | None = None) -> Soaked:
        """Let faults happen for so long; or each of them so often, if that is given."""
        faults = [fault for fault in faults_of(self._stage) if only is None or fault.name in only]
        with recording(self._folder / "overseer.jsonl", "overseer"):
            try:
                await self._begin()
                await self._hurt(faults, seconds, rounds)
                await self._end()
            finally:
                if self._stage.line is not None:
                    self._stage.line.pass_on()
                self._cast.kill()
        self._result.verdict = await judge(self._stage.straight, self._folder, self._seen)
        self._result.verdict.problems[:0] = self._problems
        self._measure()
        return self._result

    # The beginning

    async def _begin(self) -> None:
        await self._stage.place.prepare()
        for member in self._cast.servers:
            member.start()
        await self._stage.serving()
        for member in (*self._cast.workers, *self._cast.producers):
            member.start()
        at_work = {member.name for member in (*self._cast.workers, *self._cast.producers)}
        deadline = time.monotonic() + STARTING
        while not at_work <= self._seen.last.keys():
            if time.monotonic() > deadline or self._problems:
                raise TimeoutError("not all are at work: " + "\n".join(member.said() for member in self._cast))
            await self._pass(LOOK)
        self._began = time.monotonic()
        self._say("everyone is at work")
        await self._pass(WARM)
        # A backlog that is worked off makes it more than what is sent; that need not be reached again.
        self._result.usual = min(self._rate, rate(self._times(), 0.0, WARM))

    # The middle

    async def _hurt(self, faults: list[Fault], seconds: float, rounds: int | None) -> None:
        end = time.monotonic() + seconds
        for fault in self._in_rounds(faults, rounds):
            if rounds is None and time.monotonic() >= end:
                return
            happened = await self._let_happen(fault)
            await self._rest(happened)

    def _in_rounds(self, faults: list[Fault], rounds: int | None) -> Iterator[Fault]:
        """Give each of them once, in an order that the seed decides, then each once more in another order."""
        for _ in count() if rounds is None else range(rounds):
            yield from self._rng.sample(faults, len(faults))

    async def _let_happen(self, fault: Fault) -> Happened:
        act = Act(self._stage, self._cast, self._folder, self._rng)
        began, struck = time.monotonic(), 0
        self._say(f"{fault.name} …")
        try:
            struck = await fault.do(act)
        except Exception as error:  # noqa: BLE001 - whatever it is, the soak goes on, and has failed
            self._problems.append(f"{fault.name} could not be done: {error!r}")
        finally:
            if self._stage.line is not None:
                self._stage.line.pass_on()
        self._problems += act.problems
        over = time.monotonic()
        begun = self._began
        hit = over if act.hit is None else act.hit
        happened = Happened(fault.name, act.whom, began - begun, hit - begun, over - begun, struck, prompt=fault.prompt)
        self._result.happened.append(happened)
        return happened

    async def _rest(self, happened: Happened) -> None:
        """Wait until throughput is back, and let it be quiet for a while, so that the next fault meets all at work."""
        usual, patience = self._result.usual, time.monotonic() + BACK
        while happened.back is None and time.monotonic() < patience:
            await self._pass(LOOK)
            happened.back = back_after(self._times(), happened.hit, usual, time.monotonic() - self._began)
        await self._pass(self._quiet)
        back = "not back" if happened.back is None else f"back after {happened.back:.1f} s"
        self._say(f"{happened.fault} {happened.whom}: {back}; {len(self._seen.ended):,} jobs so far")

    def _times(self) -> list[float]:
        return sorted(at - self._began for at in self._seen.ended.values())

    async def _pass(self, seconds: float) -> None:
        """Let time pass, and see what the others do meanwhile."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            await asyncio.sleep(min(LOOK, left))
            self._seen.look()
            self._problems += self._cast.gone()

    # The end

    async def _end(self) -> None:
        self._say("the producers stop; what is left is worked off")
        await self._dismiss(self._cast.producers)
        self._seen.look()
        await self._drain()
        await self._dismiss(self._cast.workers)
        self._result.seconds = time.monotonic() - self._began
        await self._dismiss(self._cast.servers)
        self._seen.look()

    async def _dismiss(self, members: list[Member]) -> None:
        for member in members:
            member.tell_to_end()
        ended = await asyncio.gather(*(asyncio.to_thread(member.ended) for member in members))
        self._problems += [problem for problem in ended if problem is not None]

    async def _drain(self) -> None:
        deadline = time.monotonic() + DRAIN
        async with dibs.App(self._stage.straight) as app:
            while left := await _unfinished(app):
                if time.monotonic() > deadline:
                    self._problems.append(f"{left:,} jobs had not ended {DRAIN:g} s after the last was enqueued")
                    return
                await self._pass(LOOK)

    def _measure(self) -> None:
        seen, result = self._seen, self._result
        refused = [at for at, _ in seen.refused]
        result.moments = through_time(seen.acknowledged, seen.ended, refused, self._began, self._began + result.seconds)
        for at, told in seen.refused:
            result.refusals.setdefault(told.split(" ", 1)[0], Refusals(told)).times += 1
            for happened in reversed(result.happened):
                if at - self._began >= happened.began:
                    happened.refused += 1
                    break


async def _unfinished(app: dibs.App) -> int:
    """Count what has not ended; -1, if the store has not got over its last fault yet."""
    try:
        return (await app.counts()).unfinished
    except dibs.StoreUnavailable:
        return -1
