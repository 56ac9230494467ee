"""A small world: who acts in it, and one run of it, call by call."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dibs.broker.local import LocalBroker
from dibs.clock import FakeClock
from dibs.domain.errors import DibsError
from dibs.domain.retry import SECOND
from dibs.domain.settings import Config
from dibs.stores.memory import MemoryStore
from dibs.testing.history import History, Recorder, check, read_audit, recorded
from dibs.testing.sim.loop import SimLoop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from dibs.broker.protocol import Broker
    from dibs.domain.newjob import NewJob
    from dibs.store import Store

LEASE: Final = 10
"""Seconds."""

Actor = "Callable[[Broker], Coroutine[Any, Any, None]]"
"""What someone does, by the calls of a broker."""


class World(msgspec.Struct, frozen=True, kw_only=True):
    """Who acts, on which jobs, and how much may go wrong."""

    name: str
    jobs: tuple[NewJob, ...]
    actors: dict[str, Callable[[Broker], Coroutine[Any, Any, None]]]
    crashes: int = 0  # how many actors may die, before or after any of their calls
    ticks: int = 1  # how many times a lease's time may pass


class Choice(msgspec.Struct, frozen=True):
    """What happens next: one actor's call is let through, or it dies, or time passes."""

    actor: str  # empty: time passes
    crash: str = ""  # before, after

    def __str__(self) -> str:
        if not self.actor:
            return "time passes"
        return f"{self.actor} dies {self.crash} its call" if self.crash else self.actor


class _Clock(FakeClock):
    """The same time for all, and luck of one's own."""

    threads = False

    def __init__(self, seed: int, shared: FakeClock | None) -> None:
        super().__init__(seed)
        self._shared = shared

    def now(self) -> int:
        return super().now() if self._shared is None else self._shared.now()


class _Gate:
    """A store as one actor reaches it: every call waits until it is let through."""

    def __init__(self, run: Run, actor: str, store: Store) -> None:
        self._run, self._actor, self._store = run, actor, store
        self.capabilities = store.capabilities

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._store, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await self._run.pass_gate(self._actor, name, method, args, kwargs)

        self.__dict__[name] = call
        return call

    async def open(self) -> None:
        """Nothing is opened."""


class Run:
    """One run of a world, up to some state."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._loop = SimLoop()
        self._clock = _Clock(0, None)
        self.store = MemoryStore(self._clock)
        self.history = History(clock=self._tick)
        self._times = 0
        self.seen: dict[str, list[bytes]] = {name: [] for name in world.actors}  # what each was answered
        self.waiting: dict[str, tuple[str, asyncio.Future[str]]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._dead: list[str] = []
        self._ticks = 0
        self.trouble: list[str] = []
        self._loop.run_until_complete(self._begin())
        self._settle()

    def _tick(self) -> int:
        self._times += 1
        return self._times

    async def _begin(self) -> None:
        config = Config.of()
        first = LocalBroker(recorded(self.store, Recorder(self.history, "producer")), self._clock, config)
        await first.enqueue(self.world.jobs)
        for number, (name, script) in enumerate(self.world.actors.items(), 1):
            gate: Any = _Gate(self, name, self.store)
            clock = _Clock(number, self._clock)
            broker = LocalBroker(recorded(gate, Recorder(self.history, name)), clock, config)
            self._tasks[name] = self._loop.create_task(self._act(name, script(broker)))

    async def _act(self, name: str, script: Coroutine[Any, Any, None]) -> None:
        try:
            await script
        except DibsError as error:
            self.seen[name].append(repr(error).encode())

    async def pass_gate(
        self,
        actor: str,
        name: str,
        method: Callable[..., Awaitable[Any]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Wait to be let through; then do it, and go on with the answer, or not at all."""
        verdict = self._loop.create_future()
        self.waiting[actor] = (name, verdict)
        crash = await verdict
        if crash == "before":
            await self._loop.create_future()
        answer = await method(*args, **kwargs)
        if crash == "after":
            await self._loop.create_future()
        self.seen[actor].append(msgspec.msgpack.encode(answer, enc_hook=repr))
        return answer

    def _settle(self) -> None:
        """Let everyone go on until all wait at a gate, or have ended."""
        while self._loop._ready:  # type: ignore[attr-defined]  # noqa: SLF001 - a loop cannot be asked otherwise
            self._loop._run_once()  # type: ignore[attr-defined]  # noqa: SLF001 - nor be told
        asyncio._set_running_loop(None)  # noqa: SLF001
        self.trouble += self._loop.unhandled

    # What can be chosen

    def choices(self) -> list[Choice]:
        """List what may happen next."""
        found = [Choice(name) for name in self.waiting]
        if len(self._dead) < self.world.crashes:
            found += [Choice(name, crash) for name in self.waiting for crash in ("before", "after")]
        if self._ticks < self.world.ticks and self.waiting:
            found.append(Choice(""))
        return found

    def choose(self, choice: Choice) -> None:
        """Let it happen."""
        if not choice.actor:
            self._ticks += 1
            self._clock.advance(LEASE + 1)
            return
        _, verdict = self.waiting.pop(choice.actor)
        if choice.crash:
            self._dead.append(choice.actor)
        asyncio._set_running_loop(self._loop)  # noqa: SLF001
        verdict.set_result(choice.crash)
        self._settle()

    def state(self) -> bytes:
        """Give what the future depends on: the store, what each actor has seen, who waits for what, who is dead."""
        rows = [(row.job, row.events) for row in self.store._table.rows.values()]  # noqa: SLF001 - its very state
        waiting = {name: call for name, (call, _) in self.waiting.items()}
        known = (rows, self.seen, waiting, self._dead, self._ticks, len(self._dead))
        return msgspec.msgpack.encode(known, enc_hook=repr)

    # The end

    def verdict(self) -> str:
        """Check what was seen, work off what is left, and check again; empty if every promise was kept."""
        if self.trouble:
            return "\n".join(self.trouble)
        asyncio._set_running_loop(None)  # noqa: SLF001
        return self._loop.run_until_complete(self._check())

    async def _check(self) -> str:
        report = check(self.history, await read_audit(self.store), final=False)
        if not report.ok:
            return str(report)
        broker = LocalBroker(recorded(self.store, Recorder(self.history, "caretaker")), self._clock, Config.of())
        for _ in range(20):
            self._clock.advance(3600)
            await work_off(broker)
        counts = await self.store.counts()
        if counts.unfinished:
            return f"{counts.unfinished} jobs are left that cannot be worked off"
        report = check(self.history, await read_audit(self.store), now_us=self._clock.now() + SECOND)
        return "" if report.ok else str(report)

    def close(self) -> None:
        """Forget it."""
        for task in self._tasks.values():
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - they stay where they are
        self._loop.set_exception_handler(lambda *_: None)
        asyncio._set_running_loop(None)  # noqa: SLF001
        self._loop.close()


async def work_off(broker: Broker) -> None:
    """Claim and complete all that is due."""
    from dibs.broker.protocol import Ask, Ending

    while jobs := await broker.claim(Ask(worker_id="caretaker", limit=10)):
        await broker.settle([Ending(job.ref, "complete", job=job) for job in jobs])


def path_of(choices: Sequence[Choice]) -> str:
    """Write a path down."""
    return " → ".join(map(str, choices)) or "(at once)"
