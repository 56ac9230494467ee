"""A world: processes that come and go, on one store, with jobs whose handlers do all that handlers do."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dibs.app import App
from dibs.claim import current
from dibs.domain.errors import DibsError
from dibs.domain.job import Filter, Status
from dibs.domain.newjob import NewJob
from dibs.domain.retry import Backoff
from dibs.domain.signals import Fail, Retry, Snooze
from dibs.store import PAUSED
from dibs.testing.history import History, Recorder, recorded
from dibs.testing.sim.loop import SimClock, SimLoop
from dibs.testing.sim.wire import Fate, Process, Wire
from dibs.testing.sim.witness import Witness
from dibs.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from dibs.store import Store
    from dibs.testing.sim.plan import Plan

_PATIENCE = 3_000.0  # virtual seconds until a world that has become calm must have come to its end


class World:
    """All of one run."""

    def __init__(self, plan: Plan, loop: SimLoop, open_store: Callable[[SimClock], Store]) -> None:
        self.plan = plan
        self.loop = loop
        self.clock = SimClock(loop, plan.random("store"))
        self.fate = Fate(plan, loop, self.clock)
        self.history = History(clock=self._nanoseconds)
        self.trouble: list[str] = []
        self.witness = Witness(self.history, self._nanoseconds)
        self._open_store = open_store
        self.store = open_store(self.clock)
        self._tasks: list[asyncio.Task[None]] = []
        self._apps: list[App] = []
        self._born = 0
        self._counted = -1, 0
        luck = self._luck = plan.random("world")
        self._workers = min(luck.randint(1, 4), plan.workers or 4)
        self._left = plan.steps if plan.jobs is None else plan.jobs
        self._backlog = luck.choice((1, 2, 5, 20))  # producers rest while so many are unfinished
        self._lease = luck.choice((0.5, 1.0, 3.0))
        self._names = luck.random() < 0.3  # whether a worker comes back under its predecessor's name

    def _nanoseconds(self) -> int:
        return round(self.loop.now * 1e9)

    async def run(self) -> None:
        """Begin, let misfortune have its way, and wait until all is worked off."""
        await self.store.open()
        self._begin(self._produce(self._process("producer")))
        if self._luck.random() < 0.5:
            self._begin(self._produce(self._process("producer 2")))
        if self._luck.random() < 0.6:
            self._begin(self._operate(self._process("operator")))
        for place in range(self._workers):
            self._start_worker(place)
        end = None
        while not await self._at_rest():
            await asyncio.sleep(0.5)
            if self.fate.calm:
                end = end or self.loop.now + _PATIENCE
                if await self.store.read(PAUSED + "other") is not None:  # by an operator who has died, perhaps
                    await self._resume(self._app(self._process("caretaker")))
                if self.loop.now > end:
                    self.trouble.append("jobs are left that no one works off")
                    return

    async def _at_rest(self) -> bool:
        if not self.fate.calm and self._left > 0:
            return False
        unfinished = await self._unfinished()
        if unfinished == 0 and not self.fate.calm:
            self.fate.settle_down()
        return unfinished == 0

    async def _unfinished(self) -> int:
        """Count what is left; anew only if someone has asked the store for something since."""
        if self._counted[0] != self.fate.touched:
            self._counted = self.fate.touched, (await self.store.counts()).unfinished
        return self._counted[1]

    def _begin(self, work: Any) -> None:
        self._tasks.append(self.loop.create_task(self._see(work)))

    async def _see(self, work: Any) -> None:
        """Let no one leave the world unseen: a producer that ends with an error would make it an empty one."""
        try:
            await work
        except Exception as error:  # noqa: BLE001 - whatever it is, it should not have come so far
            self.trouble.append(f"someone ended with {error!r}")

    def blamed_us(self) -> dict[str, int]:
        """Say since when each worker, or all of them (""), may have lost a lease for a reason."""
        return {_worker_id(name): at for name, at in self.fate.blamed_us.items()}

    # Processes

    def _process(self, name: str) -> Process:
        self._born += 1
        return Process(name, self._born, self.fate, self._crashed)

    def _app(self, process: Process) -> App:
        clock = SimClock(self.loop, self.plan.random("process", process.number))
        app = App("memory://", clock=clock, reap_every=1.0, prune_every=20.0, poll_every=2.0)
        store = self.store if self.plan.store == "memory" else self._open_store(self.clock)
        wire = recorded(Wire(store, process, self.history), Recorder(self.history, process.name))  # type: ignore[arg-type]
        app.runtime.open_store = lambda _url, _clock: wire
        self._apps.append(app)
        return app

    def _crashed(self, process: Process) -> None:
        self.fate.tell(process.name, "is dead")
        kind, _, place = process.name.partition(" ")
        if kind == "worker":
            later = self._luck.uniform(0, 3 * self._lease)
            self.loop.call_later(later, self._start_worker, int(place.split(".", maxsplit=1)[0]))

    def _start_worker(self, place: int) -> None:
        if self.fate.over:
            return
        process = self._process(f"worker {place}" if self._names else f"worker {place}.{self._born}")
        app = self._app(process)
        self._define(app, process)
        luck = self.plan.random("worker", process.number)
        worker = Worker(
            app,
            worker_id=_worker_id(process.name),
            concurrency=luck.randint(1, 3),
            lease=self._lease,
            grace=luck.choice((0.0, 1.0, 10.0)),
        )
        self._begin(worker.run())
        if luck.random() < 0.3:
            self.loop.call_later(luck.uniform(0, 20), self._stop_worker, process, worker, place)

    def _stop_worker(self, process: Process, worker: Worker, place: int) -> None:
        """Replace a worker by another, as a rolling restart does."""
        if not process.dead and not self.fate.over:
            self.fate.tell(process.name, "is told to stop")
            self.fate.stopped = True
            worker.stop()
            self.loop.call_later(self._luck.uniform(0, 2), self._start_worker, place)

    # What they do

    def _define(self, app: App, process: Process) -> None:
        @app.task
        async def task(luck: int) -> int:
            draw = self.plan.random("job", luck, current().fence)
            self.fate.tell(process.name, f"runs {luck} under fence {current().fence}")
            return await self._watch(process, draw)

    async def _watch(self, process: Process, luck: Random) -> int:
        claim = current()
        self.witness.begins(claim)
        try:
            result = await self._handle(process, luck)
        except BaseException as error:
            self.witness.raises(claim, error)
            raise
        if not claim.settled:
            self.witness.completes(claim, result)
        return result

    async def _handle(self, process: Process, luck: Random) -> int:
        await asyncio.sleep(luck.choice((0, 0, 0.01, 0.3, self._lease * 1.5)))
        await process.alive()
        chance = luck.random()
        claim = current()
        if self.fate.calm:
            return claim.fence
        if chance < 0.1:
            raise ValueError("it failed")
        if chance < 0.15:
            raise Retry(delay=luck.random())
        if chance < 0.18:
            raise Fail
        if chance < 0.22:
            raise Snooze(luck.random())
        if chance < 0.25:
            process.crash()
            await self.fate.never()
        if chance < 0.35:
            await claim.progress(luck.random(), "on the way")
        if chance < 0.4:
            self.witness.completes(claim, "by itself")
            await claim.complete("by itself")
        return claim.fence

    async def _produce(self, process: Process) -> None:
        app, luck = self._app(process), self.plan.random(process.name)
        while self._left > 0 and not self.fate.calm:
            if await self._unfinished() >= self._backlog:
                await asyncio.sleep(0.1)
                continue
            jobs = [self._new_job(luck) for _ in range(luck.choice((1, 1, 2, 5)))]
            with suppress(DibsError):  # it is not known whether they are there; they count as asked for
                await app.enqueue_many(jobs)
            await asyncio.sleep(luck.choice((0, 0.01, 1.0)))
        self._left = 0

    def _new_job(self, luck: Random) -> NewJob:
        self._left -= 1
        number = luck.randrange(1000)
        return NewJob(
            "task",
            {"luck": number},
            queue=luck.choice(("default", "default", "other")),
            priority=luck.choice((0, 0, 5)),
            delay=luck.choice((None, None, luck.random() * 5)),
            max_attempts=luck.choice((1, 3, 50)),
            retry=Backoff(luck.choice((0, 0.1)), 1),
            lease=self._lease,
            retention=luck.choice((None, None, 0)),
            idempotency_key=luck.choice((None, None, f"key-{number % 3}-{number}")),
            unique_key=luck.choice((None, None, None, f"unique-{number % 3}")),
        )

    async def _operate(self, process: Process) -> None:
        app, luck = self._app(process), self.plan.random(process.name)
        while not self.fate.calm:
            await asyncio.sleep(luck.uniform(0, 3))
            with suppress(DibsError):
                await self._interfere(app, luck)

    async def _interfere(self, app: App, luck: Random) -> None:
        action = luck.choice(("cancel", "redrive", "pause", "resume", "redrive all", "look"))
        page = await app.find(limit=5)
        if action == "cancel" and page.items:
            await app.cancel(luck.choice(page.items).id, by="operator")
        elif action == "redrive" and page.items:
            await app.redrive(luck.choice(page.items).id, by="operator")
        elif action == "redrive all":
            await app.redrive(where=Filter(status=Status.FAILED), by="operator")
        elif action == "pause":
            await app.pause("other", by="operator")
        elif action == "resume":
            await app.resume("other", by="operator")
        else:
            await app.counts()
            report = await app.verify()  # of a store at work: what it tells is true at any moment
            if not report.ok:
                self.trouble.append(f"an operator who verified the store was told: {report}")

    async def _resume(self, app: App) -> None:
        while True:
            with suppress(DibsError):
                await app.resume("other")
                return
            await asyncio.sleep(0.5)

    # The end

    async def end(self) -> None:
        """Let everyone go, so that nothing of this world is left behind."""
        self.fate.end()
        me = asyncio.current_task()
        for _ in range(20):
            tasks = [task for task in asyncio.all_tasks() if task is not me]
            if not tasks:
                return
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=100)


def _worker_id(process: str) -> str:
    return process.replace(" ", "-").replace(".", "-")
