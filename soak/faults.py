"""The faults, by name: what each does, and to which stages it can be done."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from soak import network
from soak.cast import Cast, Member
from soak.clocks import jump
from soak.network import SECONDS, Line
from soak.stages import Stage
from soak.subjects import Subject, Trouble
from soak.work import LEASE

HOUR = 3600.0
AWAY = 1.0
"""Seconds until one that was killed is started again."""


class Act:
    """One fault on its way: whom it hits, and when."""

    def __init__(self, stage: Stage, cast: Cast, folder: Path, rng: random.Random) -> None:
        self.stage, self.cast, self.folder, self.rng = stage, cast, folder, rng
        self.whom = ""
        self.hit: float | None = None
        """From here on work should go on; from its end, if it does not say."""
        self.problems: list[str] = []

    @property
    def subject(self) -> Subject:
        assert self.stage.subject is not None
        return self.stage.subject

    @property
    def proxy(self) -> Line:
        assert self.stage.line is not None
        return self.stage.line

    async def until(self, condition: Callable[[], bool], seconds: float) -> float:
        began = time.monotonic()
        while not condition():
            if time.monotonic() > began + seconds:
                raise TimeoutError(f"did not strike within {seconds:g} s")
            await asyncio.sleep(0.02)
        return time.monotonic() - began

    def choose(self, members: list[Member]) -> Member:
        member = self.rng.choice(members)
        self.whom = member.name
        return member

    async def end(self, member: Member) -> None:
        if (problem := await asyncio.to_thread(member.end)) is not None:
            self.problems.append(problem)


Do = Callable[[Act], Awaitable[int]]


@dataclass(frozen=True)
class Fault:
    """Something that happens for a while, or at once."""

    name: str
    about: str
    do: Do
    prompt: bool = False
    """Throughput must be back to 90% within ten seconds."""


# ---------------------------------------------------------------- processes


async def kill_worker(act: Act) -> int:
    """A worker is killed, and started again after a second."""
    return await _kill(act, [act.choose(act.cast.workers)])


async def kill_every_worker(act: Act) -> int:
    """All workers are killed at once, and started again together."""
    act.whom = "all of them"
    return await _kill(act, act.cast.workers)


async def kill_producer(act: Act) -> int:
    """A producer is killed, and started again; it sends again what was not acknowledged."""
    return await _kill(act, [act.choose(act.cast.producers)])


async def kill_server(act: Act) -> int:
    """An API server is killed, and started again after a second."""
    return await _kill(act, [act.choose(act.cast.servers)])


async def _kill(act: Act, members: list[Member]) -> int:
    act.hit = time.monotonic()
    for member in members:
        member.kill()
    await asyncio.sleep(AWAY)
    for member in members:
        member.start()
    return len(members)


async def stop_worker(act: Act) -> int:
    """A worker stands still for longer than a lease; then it goes on, and what it says is refused."""
    return await _stop(act.choose(act.cast.workers))


async def stop_producer(act: Act) -> int:
    """A producer stands still for a while, in the middle of whatever it does."""
    return await _stop(act.choose(act.cast.producers))


async def stop_server(act: Act) -> int:
    """An API server stands still for longer than a lease."""
    return await _stop(act.choose(act.cast.servers))


async def _stop(member: Member) -> int:
    member.stop()
    try:
        await asyncio.sleep(1.5 * LEASE)
    finally:
        member.go_on()
    return 1


async def restart_worker(act: Act) -> int:
    """A worker is told to end, which it does when its handlers have, and is started again."""
    return await _restart(act, act.choose(act.cast.workers))


async def restart_server(act: Act) -> int:
    """An API server is told to end, and is started again."""
    return await _restart(act, act.choose(act.cast.servers))


async def _restart(act: Act, member: Member) -> int:
    await act.end(member)
    act.hit = time.monotonic()
    member.start()
    return 1


async def clock_ahead(act: Act) -> int:
    """A worker's clock is an hour ahead."""
    return await _clock(act, HOUR)


async def clock_behind(act: Act) -> int:
    """A worker's clock is an hour behind."""
    return await _clock(act, -HOUR)


async def _clock(act: Act, seconds: float) -> int:
    member = act.choose(act.cast.workers)
    await act.end(member)
    member.start(seconds)
    await asyncio.sleep(1.5 * LEASE)  # so that leases are given, extended, and might run out
    await act.end(member)
    member.start()
    return 1


async def clock_jump(act: Act) -> int:
    """The machine's clock jumps ahead by a minute, so that every lease runs out while its holder is at work."""
    return _jump(act, 60.0)


async def clock_back(act: Act) -> int:
    """The machine's clock is set back by two seconds."""
    return _jump(act, -2.0)


def _jump(act: Act, seconds: float) -> int:
    jump(act.folder, seconds)
    act.hit = time.monotonic()
    return 1


# ---------------------------------------------------------------- what a make of store can have


OWN = {
    "held_snapshot": "A foreign transaction reads, and what is changed meanwhile cannot be cleared away.",
    "held_lock": "A foreign program holds the file's write lock.",
    "no_connections": "Every connection is ended, and the server has none left to give.",
    "kill_every_connection": "The servers end every connection, ten times a second.",
    "memory_full": "The server has no memory for anything new.",
    "disk_full": "There is no room on the disk.",
    "failover": "A master and its replica change places.",
    "resharding": "Shards are moved to other masters while they are worked on.",
    "stalled_master": "A master stands still, and keeps its connections.",
}


AT_ONCE = {"failover", "resharding"}
"""Over as soon as they are done."""


def _own(name: str, trouble: Trouble) -> Fault:
    async def do(_act: Act) -> int:
        async with trouble():
            if name not in AT_ONCE:
                await asyncio.sleep(SECONDS)
        return 1

    return Fault(name, OWN[name], do, prompt=name == "failover")


# ---------------------------------------------------------------- which of them where


def _named(*doings: Do) -> list[Fault]:
    prompt = (network.restart_fast, network.restart_immediate, kill_server)
    return [Fault(do.__name__, str(do.__doc__).splitlines()[0], do, prompt=do in prompt) for do in doings]


EVERYWHERE = _named(kill_worker, kill_every_worker, kill_producer, stop_worker, stop_producer, restart_worker)
OF_A_CLOCK = _named(clock_ahead, clock_behind)
OF_THE_MACHINES_CLOCK = _named(clock_jump, clock_back)
OF_API_SERVERS = _named(kill_server, stop_server, restart_server)
OF_A_SERVER = _named(network.restart_fast, network.restart_immediate, network.kill_every_connection)
OF_A_NETWORK = _named(
    network.reset, network.refuse, network.silence, network.half_open, network.cut_after_any, network.delay
)
OF_A_STORES_NETWORK = _named(network.cut_after_commit)


def faults_of(stage: Stage) -> list[Fault]:
    """List what can happen on a stage, in an order that is always the same."""
    faults = list(EVERYWHERE)
    # A server has a clock of its own, and a worker's may be another. A file has the machine's, as every process has.
    faults += OF_THE_MACHINES_CLOCK if stage.name == "sqlite" else OF_A_CLOCK
    if stage.ports:
        faults += OF_API_SERVERS
    if stage.subject is not None:
        faults += OF_A_SERVER
    if stage.line is not None:
        faults += OF_A_NETWORK if stage.ports else OF_A_NETWORK + OF_A_STORES_NETWORK
    return faults + [_own(name, trouble) for name, trouble in stage.place.troubles.items()]
