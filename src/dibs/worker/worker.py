"""The worker: fetches jobs as there is room, starts them as there are places, and stops without leaving one behind.

=========  ===========================================================================================================
fetch      one claim at a time for as many jobs as there is room for; while it is on its way, room gathers
queue      jobs that are claimed and not started: no more than were ended within the last second, so none waits long
places     handlers that run, ``concurrency`` at the most
settling   what has ended, sent in batches; a batch and the next claim usually meet in one commit
keeper     extends all that is held, in one call, off this loop
=========  ===========================================================================================================
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dibs.app import default_worker_id
from dibs.broker.protocol import Ask
from dibs.claim import Claim
from dibs.domain import checks
from dibs.domain.errors import DibsError, InvalidRequest, SchemaOutdated, WrongState
from dibs.domain.settings import MAX_CLAIM
from dibs.worker.checking import apart, check
from dibs.worker.ends import BatchEnds
from dibs.worker.finding import refuse_while_importing
from dibs.worker.handling import Handlers
from dibs.worker.health import Health
from dibs.worker.meter import Counting
from dibs.worker.pace import Pace, pause
from dibs.worker.presence import Presence
from dibs.worker.processes import Processes, usable_cpus
from dibs.worker.publishing import Publishing
from dibs.worker.renewal import Renewal
from dibs.worker.scheduling import Scheduling
from dibs.worker.settling import Settlement, Settling, released
from dibs.worker.shares import Shares
from dibs.worker.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dibs.app import App
    from dibs.domain.job import Job, Json
    from dibs.domain.retry import Duration
    from dibs.worker.meter import Meter

logger = logging.getLogger("dibs")

LOOP_WAIT = 60.0
"""Seconds that a claim waits; only how often it asks anew, not how fast it answers."""
_AT_ONCE = 100  # jobs begun in one turn of the loop


class Worker:
    """Runs an app's tasks until it is told to stop.

    ``tasks`` are those of the app unless some are named, ``queues`` all; with weights, ``{"fast": 5, "slow": 1}``, jobs
    are begun in proportion to these, and else by priority and age alone. At most ``concurrency`` handlers run at once:
    async ones on the loop, plain functions in threads, and those of tasks with ``process=True`` in processes; of these
    there are at most ``handler_processes`` (one for each CPU unless set). ``prefetch`` bounds the jobs that are claimed
    ahead (as many as ``concurrency`` unless set; 0: none), ``grace`` is how long running handlers may go on after
    ``stop``.

    A process that has run ``renew_after_jobs`` jobs, or has more than ``renew_above_mib`` MiB of memory, is to be
    renewed: one for handlers is replaced, and this one's ``run`` ends when everything that it holds has ended, and
    ``spent`` says so. ``meter`` is told what there is to be counted. ``health_file`` is written every few seconds while
    all is well.
    """

    def __init__(
        self,
        app: App,
        *,
        worker_id: str | None = None,
        queues: Sequence[str] | Mapping[str, int] | None = None,
        tasks: Sequence[str] | None = None,
        concurrency: int = 10,
        prefetch: int | None = None,
        lease: Duration | None = None,
        grace: Duration = 30.0,
        handler_processes: int | None = None,
        renew_after_jobs: int | None = None,
        renew_above_mib: int | None = None,
        meter: Meter | None = None,
        health_file: str | Path | None = None,
    ) -> None:
        worker_id = default_worker_id() if worker_id is None else worker_id
        check(
            app,
            worker_id,
            queues,
            tasks,
            concurrency=concurrency,
            prefetch=prefetch,
            lease=lease,
            grace=grace,
            handler_processes=handler_processes,
            renew_after_jobs=renew_after_jobs,
            renew_above_mib=renew_above_mib,
            health_file=health_file,
        )
        self.app = app
        self.worker_id = worker_id
        self.concurrency = concurrency
        self.prefetch = concurrency if prefetch is None else prefetch
        self.grace = checks.seconds("grace", grace)
        names = list(app.tasks) if tasks is None else list(dict.fromkeys(tasks))
        self.weights = dict(queues) if isinstance(queues, Mapping) else None
        chosen = list(queues) if isinstance(queues, Mapping) else queues
        self._ask = Ask(worker_id=self.worker_id, queues=chosen, tasks=names, lease=lease, wait=LOOP_WAIT)
        self._shares = None if self.weights is None else Shares(self.weights, app.runtime.clock)
        self._runtime = app.runtime
        self._pace = Pace(app.runtime.clock, self.prefetch)
        self._queue: deque[Claim] = deque()
        self._running: dict[asyncio.Task[None], Claim] = {}
        self._threads = Threads(app.runtime.clock) if app.runtime.clock.threads else None
        most = min(usable_cpus(), concurrency) if handler_processes is None else handler_processes
        renewal = partial(Renewal, renew_after_jobs, renew_above_mib, app.runtime.clock.random)
        self._renewal = renewal()
        self._apart = frozenset(apart(app, names))
        self._processes = Processes.of(app, sorted(self._apart), most, renewal) if self._apart else None
        # Where all handlers need a process, no more is claimed than there are: others may be idle.
        self._places = min(concurrency, most) if len(self._apart) == len(names) else concurrency
        self._handlers = Handlers(app.tasks, self._threads, self._processes, app.layers)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._room_made = asyncio.Event()
        self._counting = None if meter is None else Counting(meter)
        self._settling = Settling(app.runtime, self._sent, self._counting)
        self._ends = BatchEnds(app.runtime)
        self._health_file = None if health_file is None else Path(health_file)
        self._stopped = asyncio.Event()  # nothing more is claimed
        self._hurried = asyncio.Event()  # … and running handlers are not waited for
        self._ran = False
        self._starting = False  # whether more are to be begun in the next turn of the loop
        self.given_back = 0  # jobs that it had not ended when it was stopped
        self.spent = False  # whether it is to be renewed: it takes nothing more, and ends with what it holds

    @property
    def tasks(self) -> list[str]:
        """The names of the tasks that it runs."""
        return list(self._ask.tasks or ())

    # Life

    async def run(self, *, until_idle: bool = False) -> None:
        """Work until ``stop`` is called; with ``until_idle``, until nothing is due and nothing is held.

        Cancelling it stops it hard: handlers are cancelled, and what they had not ended is given back.
        """
        refuse_while_importing()
        if self._ran:
            raise WrongState("this worker has run already", hint="Make another one.")
        self._ran = True
        self._loop = asyncio.get_running_loop()
        self._runtime.maintain()
        presence = Presence(self._runtime, self.worker_id, self._metadata())
        health = None
        if self._health_file is not None:
            health = Health(self._health_file, self.worker_id, self._runtime.clock, presence)
        # Not until idle: there would be no telling when that is.
        scheduling = Scheduling(self._runtime, [] if until_idle else self.app.plans)
        handled = [self.app.tasks[name] for name in self.tasks]
        publishing = Publishing(self._runtime, self.worker_id, handled, once=until_idle)
        self._ends.by_itself = not until_idle
        try:
            await self._fetch_until_stopped(until_idle=until_idle)
            if self.spent:
                await self._use_up()
            await self._finish()
        except BaseException as error:
            self._settling.outdated = isinstance(error, SchemaOutdated)
            await self._abandon()
            raise
        finally:
            await scheduling.leave()
            await publishing.leave()
            await self._settling.close()
            await self._ends.leave()
            if health is not None:
                await health.leave()
            await presence.leave()
            if self._threads is not None:
                self._threads.close()
            if self._processes is not None:
                await self._processes.close()
            self._loop = None

    def stop(self) -> None:
        """Stop: claim nothing more, let handlers finish, give back the rest. Called again: do not wait for handlers.

        It may be called from any thread, and returns at once.
        """
        loop = self._loop
        if loop is None:
            self._stop()
        else:
            with suppress(RuntimeError):  # it has ended meanwhile
                loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        if self._stopped.is_set():
            self._hurried.set()
        self._stopped.set()

    def main(
        self, *, until_idle: bool = False, signals: Mapping[signal.Signals, Callable[[], None]] | None = None
    ) -> None:
        """Run as this process's only business: until SIGTERM or SIGINT, and not a moment longer at the second one.

        ``signals`` says what to do at others.
        """
        asyncio.run(self._main(until_idle=until_idle, others=signals or {}))

    async def _main(self, *, until_idle: bool, others: Mapping[signal.Signals, Callable[[], None]]) -> None:
        loop = asyncio.get_running_loop()
        stops = (signal.SIGTERM, signal.SIGINT)
        for number in stops:
            loop.add_signal_handler(number, self.signalled, number)
        for number, act in others.items():
            loop.add_signal_handler(number, act)
        try:
            async with self.app:
                await self.run(until_idle=until_idle)
        finally:
            for number in (*stops, *others):
                loop.remove_signal_handler(number)

    def signalled(self, number: int) -> None:
        """Stop because of a signal, and say so. Only from the loop that it runs on."""
        again = self._stopped.is_set()
        what = "stopping at once" if again else "finishing what runs; once more to stop at once"
        logger.info("%s: %s", signal.Signals(number).name, what)
        self._stop()

    # Fetching

    async def _fetch_until_stopped(self, *, until_idle: bool) -> None:
        if self._stopped.is_set():
            return
        fetching = asyncio.ensure_future(self._fetch(until_idle=until_idle))
        stopped = asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait([fetching, stopped], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            fetching.cancel()  # a claim on its way gives back what it gets
            with suppress(asyncio.CancelledError):
                await fetching

    async def _fetch(self, *, until_idle: bool) -> None:
        failures = 0
        while True:
            room = await self._room()
            if self._renewal.due():
                logger.info("worker %s has done its share, and is to be renewed", self.worker_id)
                self.spent = True
                return
            # Race: what is settled while the claim is on its way may come back, and the claim have passed it by.
            idle = not self._running and not self._queue and not len(self._settling)
            try:
                most = self._renewal.room(min(room, MAX_CLAIM))
                found = await self._claim(most, 0 if until_idle else LOOP_WAIT)
                failures = 0
            except SchemaOutdated:
                raise
            except DibsError as error:
                if isinstance(error, InvalidRequest):
                    raise
                failures += 1
                logger.warning("claiming will be tried again: %s", error)
                await self._runtime.clock.sleep(pause(self._runtime, failures))
                continue
            if until_idle and not found:
                if not idle:
                    await self._room_made.wait()
                elif not await self._ends.look():  # what a batch ends with is work too
                    return

    async def _claim(self, room: int, wait: float) -> int:
        """Claim up to so many jobs, take them in, and say how many there were."""
        found = 0 if self._shares is None else await self._claim_shares(self._shares, room)
        if found:
            return found
        # One wait for all queues, whatever their weights: the first job to come is the one to begin.
        jobs = await self._runtime.broker().claim(self._wish(room, self._ask.queues, wait))
        if self._shares is not None:
            self._shares.took(jobs)
        self._take_in(jobs)
        self._start()
        return len(jobs)

    async def _claim_shares(self, shares: Shares, room: int) -> int:
        """Claim what each queue's share is, and what the empty ones leave of theirs from those that have more."""
        found = 0
        for _ in range(2):
            dealt = shares.deal(room - found)
            if dealt:
                found += await self._claim_dealt(shares, dealt)
        return found

    async def _claim_dealt(self, shares: Shares, dealt: Mapping[str, int]) -> int:
        broker = self._runtime.broker()
        # They begin in the same turn of the loop, so to a store they are one call.
        calls = {
            queue: asyncio.ensure_future(broker.claim(self._wish(number, [queue], 0)))
            for queue, number in dealt.items()
        }
        try:
            await asyncio.wait(calls.values())
        except asyncio.CancelledError:
            for call in calls.values():
                call.cancel()
            await asyncio.wait(calls.values())
            raise
        finally:
            # Race: cancelled, or refused, with some of them answered. Those are taken in, and given back with the rest
            # of the queue (test_stopped_with_some_queues_answered).
            answers = {queue: _answer(call) for queue, call in calls.items()}
            jobs = [job for answer in answers.values() for job in answer or ()]
            self._take_in(jobs)
        shares.took(jobs, {queue: dealt[queue] for queue, answer in answers.items() if answer is not None})
        self._start()
        for call in calls.values():
            call.result()
        return len(jobs)

    def _take_in(self, jobs: Sequence[Job]) -> None:
        # Race: cancelled with jobs in hand. The broker gives them back; from there to here nothing is awaited.
        claims = [Claim(self._runtime, job.ref, job) for job in jobs]
        self._renewal.count(sum(job.task not in self._apart for job in jobs))
        self._runtime.keeper.hold([claim.to_be_kept() for claim in claims])
        self._queue.extend(claims)

    def _wish(self, limit: int, queues: Sequence[str] | None, wait: float) -> Ask:
        ask = self._ask
        return Ask(worker_id=ask.worker_id, limit=limit, queues=queues, tasks=ask.tasks, lease=ask.lease, wait=wait)

    async def _room(self) -> int:
        """Wait until there is room for a job; say for how many."""
        while True:
            self._room_made.clear()  # before looking: what is made while we look is not missed
            room = self._places - len(self._running) - len(self._queue) + self._pace.ahead()
            # What has ended but was not settled yet is still held: a store that takes nothing in gets nothing more out.
            if room > 0 and len(self._settling) <= self.concurrency + self.prefetch:
                return room
            await self._room_made.wait()

    def _sent(self, settled: list[Settlement]) -> None:
        self._room_made.set()
        if any(claim.job.batch_id is not None for claim, _ in settled):
            self._ends.note()

    # Running

    def _start(self) -> None:
        """Start what is queued, as far as there are places: some in each turn of the loop, others have theirs too.

        So the next claim is on its way while the jobs of this one are begun, and the first of them end meanwhile.
        """
        if self._starting:
            return
        for _ in range(_AT_ONCE):
            if not self._queue or len(self._running) >= self._places:
                return
            claim = self._queue.popleft()
            if claim.lost:
                logger.warning("job %r was taken over before it was started", claim.id)
                if self._counting is not None:
                    self._counting.lost(claim)
                continue
            if self._counting is not None:
                self._counting.begun(claim)
            task = asyncio.get_running_loop().create_task(self._handlers.handle(claim, self._settle))
            self._running[task] = claim
            task.add_done_callback(self._ended)
        self._starting = True
        asyncio.get_running_loop().call_soon(self._start_more)

    def _start_more(self) -> None:
        self._starting = False
        if not self._stopped.is_set():
            self._start()

    def _settle(self, settlement: Settlement) -> None:
        self._pace.count()
        if self._counting is not None:
            self._counting.settles(settlement.claim)
        self._settling.add(settlement)
        if self._stopped.is_set() and settlement.ending.verb == "release":
            self.given_back += 1

    def _ended(self, task: asyncio.Task[None]) -> None:
        claim = self._running.pop(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("job %r: the worker itself failed; the lease will run out", claim.id, exc_info=error)
            claim.let_go()
        elif task.cancelled():  # before it began: nothing was done
            self._settle(released(claim))
        if self._counting is not None:
            self._counting.left(claim)
        if not self._stopped.is_set():
            self._start()
        self._room_made.set()

    # The end

    async def _use_up(self) -> None:
        """End all that is held, what was not started too, for as long as that takes; unless it is stopped meanwhile."""
        stopped = asyncio.ensure_future(self._stopped.wait())
        try:
            while (self._queue or self._running) and not stopped.done():
                if not self._running:  # it is about to be started, or was lost meanwhile
                    await asyncio.sleep(0)
                    self._start()
                    continue
                await asyncio.wait([stopped, *self._running], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()

    async def _finish(self) -> None:
        """Give back what was not started, and let the rest finish, for as long as that may take."""
        self._give_back_queue()
        if self._processes is not None:
            self._processes.begin_nothing_more()
        if not self._running:
            return
        logger.info("waiting up to %g s for what runs: %d", self.grace, len(self._running))
        hurried = asyncio.ensure_future(self._hurried.wait())
        clock = self._runtime.clock
        over = asyncio.ensure_future(clock.sleep(self.grace))
        try:
            while self._running and not hurried.done() and not over.done():
                await asyncio.wait([hurried, over, *self._running], return_when=asyncio.FIRST_COMPLETED)
        finally:
            hurried.cancel()
            over.cancel()
        await self._abandon()

    async def _abandon(self) -> None:
        """Cancel what runs, and give back what that leaves."""
        self._give_back_queue()
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(list(self._running))

    def _give_back_queue(self) -> None:
        while self._queue:
            self._settle(released(self._queue.popleft()))

    def _metadata(self) -> dict[str, Json]:
        return {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "concurrency": self.concurrency,
            "tasks": self.tasks,
            "queues": None if self._ask.queues is None else list(self._ask.queues),
            **({} if self.weights is None else {"weights": dict(self.weights)}),
        }


def _answer(call: asyncio.Future[list[Job]]) -> list[Job] | None:
    """Say what a claim got; none if it was refused or given up."""
    return None if not call.done() or call.cancelled() or call.exception() is not None else call.result()
