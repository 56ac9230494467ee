"""What lies between a process and its store: every call may be late, refused, done twice, or done and not answered."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from dibs.domain.errors import StoreUnavailable
from dibs.domain.retry import SECOND
from dibs.testing.sim.plan import Fault, Luck
from dibs.testing.sim.result import Moment
from dibs.testing.sim.trip import Killed, tripped

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from dibs.store import Store
    from dibs.testing.history import History
    from dibs.testing.sim.loop import SimClock, SimLoop
    from dibs.testing.sim.plan import Plan

_WRITES: Final = frozenset({"insert", "claim", "extend", "write", "put", "prune"})
"""What may be done twice, or be done and not answered."""
_HOUR: Final = 3600 * SECOND


class Over(BaseException):
    """The world has ended: whoever still asks for something in it is let go."""


class Fate:
    """Decides what happens at each step; the same for the same plan, whatever else was changed in it."""

    def __init__(self, plan: Plan, loop: SimLoop, clock: SimClock) -> None:
        self.plan = plan
        self.loop = loop
        self.clock = clock  # of the machine that all of them share
        self.step = 0
        self.calm = False
        self.over = False
        self.touched = 0  # grows when a call begins and when it ends: between two equal figures nothing was written
        self.stopped = False  # whether a worker was told to stop: what it gives back may be refused
        self.blamed_us: dict[str, int] = {}  # since when a process may lose a lease for a reason; '': all of them
        self.trace: list[Moment] = []
        luck = Luck(plan.seed, 0)
        self._rate = luck.choice((0.0, 0.01, 0.03, 0.1, 0.25))
        self._quick = luck.choice((0.0, 0.001, 0.02))  # how long a call takes, at the most
        self._kinds = [kind for kind in plan.faults if luck.random() < 0.7] or list(plan.faults)
        self._highest_skew_us = 0
        self._gone: list[asyncio.Future[None]] = []

    def tell(self, process: str, what: str, fault: Fault | None = None) -> None:
        """Put down what happened."""
        self.trace.append(Moment(round(self.loop.now, 6), process, what, fault, self.step))

    def blame(self, process: str) -> None:
        """Note that from now on this process may lose a lease, and for a reason."""
        self.blamed_us.setdefault(process, self.clock.now())

    def next(self) -> Luck:
        """Begin a step; give its luck."""
        self.step += 1
        if self.step == self.plan.steps:
            self.settle_down()
        return Luck(self.plan.seed, self.step)

    def settle_down(self) -> None:
        """Let nothing more go wrong. A clock that was set back is set right, or leases would last for hours."""
        self.calm = True
        self.clock.skew_us = max(self.clock.skew_us, self._highest_skew_us)

    def jump(self, luck: Luck) -> None:
        """Set the machine's clock, forward or back; unless all has become calm since this was drawn."""
        if self.calm:
            return
        before = self.clock.now()
        self.clock.skew_us += round(luck.uniform(-_HOUR, _HOUR))
        self._highest_skew_us = max(self.clock.skew_us, self._highest_skew_us)
        self.blamed_us[""] = min(before, self.clock.now(), self.blamed_us.get("", before))

    def fault(self, luck: Luck) -> Fault | None:
        """Draw what goes wrong in this step, if anything."""
        if self.calm or luck.random() >= self._rate or self.step in self.plan.without or not self._kinds:
            return None
        return luck.choice(self._kinds)

    def delay(self, luck: Luck) -> float:
        """Draw how long a call is on its way."""
        return luck.random() * self._quick

    async def never(self) -> None:
        """Wait for the end of the world."""
        if self.over:
            raise Over
        future = self.loop.create_future()
        self._gone.append(future)
        await future

    def end(self) -> None:
        """Let everyone go."""
        self.over = True
        for future in self._gone:
            if not future.done():
                future.set_exception(Over())


class Process:
    """Someone who uses the store, and may stand still or die."""

    def __init__(self, name: str, number: int, fate: Fate, on_crash: Callable[[Process], None]) -> None:
        self.name = name
        self.number = number
        self.fate = fate
        self.dead = False
        self.resumes_at = 0.0
        self._on_crash = on_crash

    def crash(self) -> None:
        """Die, in the middle of anything: nothing that is asked from now on is done or answered."""
        if not self.dead:
            self.dead = True
            self.fate.blame(self.name)
            self._on_crash(self)

    async def alive(self) -> None:
        """Go on only if, and when, the process does."""
        if self.fate.over:
            raise Over
        while not self.dead and self.fate.loop.now < self.resumes_at:  # noqa: ASYNC110 - it may be paused again
            await asyncio.sleep(self.resumes_at - self.fate.loop.now)
        if self.dead:
            await self.fate.never()


class Wire:
    """A store as one process reaches it."""

    def __init__(self, store: Store, process: Process, history: History) -> None:
        self._store = store
        self._history = history
        self._process = process
        self.capabilities = store.capabilities

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._store, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await self._call(name, method, args, kwargs)

        self.__dict__[name] = call
        return call

    async def close(self) -> None:
        """Leave it open: others use it."""

    async def wait(self, *args: Any, **kwargs: Any) -> frozenset[str] | None:
        """Wait for a hint. Nothing is asked of the store, so nothing goes wrong; but the process may."""
        await self._process.alive()
        heard = await self._store.wait(*args, **kwargs)
        await self._process.alive()
        return heard

    async def _call(
        self, name: str, method: Callable[..., Awaitable[Any]], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        process, fate = self._process, self._process.fate
        await process.alive()
        luck = fate.next()
        fault = fate.fault(luck)
        fate.tell(process.name, name, fault)
        if (delay := fate.delay(luck)) > 0:
            await asyncio.sleep(delay)
        if fault is not None:
            if _costs_a_lease(fault, name, stopped=fate.stopped):
                fate.blame(process.name)
            await self._before(fault, luck)
        await process.alive()
        if fault in {Fault.CRASHED_WITHIN, Fault.FULL} and name in _WRITES:
            return await self._trip(method, args, kwargs, int(luck.uniform(1, 12)), killed=fault is not Fault.FULL)
        result = await self._do(method, args, kwargs)
        if fault is Fault.TWICE and name in _WRITES:
            if name == "claim":  # no one will be told what the second one got
                for request in args[0]:
                    self._history.invoke(
                        "claim", process.name, {"worker_id": request.worker_id, "limit": request.limit}
                    )
            await self._do(method, args, kwargs)
        if fault is not None:
            await self._after(fault, name, luck)
        await process.alive()
        return result

    async def _do(self, method: Callable[..., Awaitable[Any]], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._process.fate.touched += 1
        try:
            return await method(*args, **kwargs)
        finally:
            self._process.fate.touched += 1

    async def _trip(
        self,
        method: Callable[..., Awaitable[Any]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        at: int,
        *,
        killed: bool,
    ) -> Any:
        result = None
        with suppress(Killed), tripped(self._store, at, killed=killed):
            result = await self._do(method, args, kwargs)
        if killed:
            self._process.crash()
        await self._process.alive()
        return result

    async def _before(self, fault: Fault, luck: Luck) -> None:
        if fault is Fault.REFUSED:
            raise StoreUnavailable("busy, or the disk is full")
        if fault is Fault.CRASHED_BEFORE:
            self._process.crash()
        elif fault is Fault.PAUSED:
            self._process.resumes_at = self._process.fate.loop.now + luck.uniform(0.1, 20)
        elif fault is Fault.JUMPED:
            self._process.fate.jump(luck)
        elif fault is Fault.LATE and luck.random() < 0.5:
            await asyncio.sleep(luck.uniform(0.5, 10))

    async def _after(self, fault: Fault, name: str, luck: Luck) -> None:
        if fault is Fault.LOST and name in _WRITES:
            raise StoreUnavailable("no answer came")
        if fault is Fault.CRASHED_AFTER:
            self._process.crash()
        elif fault is Fault.LATE:
            await asyncio.sleep(luck.uniform(0.5, 10))


def _costs_a_lease(fault: Fault, name: str, *, stopped: bool) -> bool:
    """Say whether a lease may run out by this. What is refused, or not answered, is asked for again in time."""
    if fault in {Fault.REFUSED, Fault.FULL}:
        return stopped and name == "write"  # what no one waits for any more is given back once
    if fault in {Fault.LOST, Fault.TWICE}:
        return name == "claim" or (stopped and name == "write")
    return True
