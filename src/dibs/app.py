"""The app: what users hold. It checks little and decides nothing; each call goes to the room it belongs to."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from dibs import once, watching
from dibs.broker.connect import is_server
from dibs.broker.protocol import Ask
from dibs.claim import Claim
from dibs.clock import Clock
from dibs.domain.checks import check_ref, check_text, seconds
from dibs.domain.errors import InvalidRequest, Problem, SchemaOutdated, StoreUnavailable
from dibs.domain.job import Filter, Order, Ref
from dibs.domain.newjob import EnqueueOptions, NewJob
from dibs.domain.settings import Config, Settings
from dibs.middleware import Middleware, check_middleware
from dibs.page import Page
from dibs.runtime import Runtime
from dibs.task import P, R, ScheduleOptions, Task, TaskOptions, Tasks, check_new_jobs, new_job, with_defaults
from dibs.telemetry import Telemetry, check_telemetry, send
from dibs.tracing import TraceContext, check_trace_context, traced

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from dibs.batches import Batch
    from dibs.broker.protocol import Changes
    from dibs.domain.audit import Report
    from dibs.domain.job import Counts, Event, Explanation, Job, Json, QueueInfo, Status, WorkerInfo
    from dibs.domain.retry import Duration
    from dibs.domain.schedule import Plan, ScheduleInfo
    from dibs.domain.schema import SchemaInfo
    from dibs.schedules import Scheduler
    from dibs.sync import SyncApp

logger = logging.getLogger("dibs")

T = TypeVar("T")
M = TypeVar("M", bound=Middleware)
C = TypeVar("C", bound=TraceContext)

DEFAULT_URL = "sqlite:///dibs.db"
LOOP_WAIT = 60.0
"""Seconds that each claim of ``claims`` waits; only how often it asks anew, not how fast it answers."""


class App:
    """A queue, by the URL of its store: ``memory://``, ``sqlite:///jobs.db``; without one, what ``DIBS_STORE`` says.

    ``http://host:8642`` names a server that serves it; its key is ``api_key``, or what ``DIBS_API_KEY`` says.
    Nothing is opened before it is first used. It may be used from any thread and any event loop, and in a forked
    child it opens everything anew. ``async with App(...)`` or ``await app.close()`` lets go of it all.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        clock: Clock | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        url = os.environ.get("DIBS_STORE") or DEFAULT_URL if url is None else url
        if problems := check_text("url", url, most=4096) or _check_key(api_key, url):
            raise InvalidRequest(problems)
        if api_key is None and is_server(url):
            api_key = os.environ.get("DIBS_API_KEY") or None
        self.url = url
        self.runtime = Runtime(url, clock or Clock(), Config.of(**settings), api_key)
        self._tasks = Tasks(self)
        self._layers: list[Middleware] = []
        self._trace: TraceContext | None = None
        self.telemetry: Telemetry | None = None

    @property
    def sync(self) -> SyncApp:
        """The same calls, blocking, for code without an event loop."""
        from dibs.sync import SyncApp

        return SyncApp(self.runtime, self)

    # Tasks

    @property
    def tasks(self) -> dict[str, Task[..., Any]]:
        """The tasks of this app by name."""
        return dict(self._tasks.by_name)

    @overload
    def task(self, name: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self, name: str | None = None, **options: Unpack[TaskOptions]
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def task(self, name: Any = None, **options: Unpack[TaskOptions]) -> Any:
        """Make a function a task, named as it is unless a name is given: ``@app.task`` or ``@app.task("name", …)``."""
        return self._tasks.task(name, **options)

    def include(self, tasks: Tasks) -> None:
        """Take in tasks that are defined elsewhere, all of them or none."""
        self._tasks.adopt(tasks)

    def schedule(self, cron_or_interval: str | Duration, **options: Unpack[ScheduleOptions]) -> Scheduler:
        """Enqueue a task again and again: by cron, in a time zone, or each so many seconds. Workers see to it.

        It goes above ``@app.task``, or above a function, which becomes a task; ``params`` names its arguments.
        ``tz`` is the time zone of a cron expression (UTC), ``name`` the schedule's own (the task's).
        ``catch_up`` is what becomes of ticks that were missed while nothing ran: ``last``, ``all`` or ``none``.
        """
        return self._tasks.schedule(cron_or_interval, **options)

    @property
    def plans(self) -> list[Plan]:
        """The schedules that this app defines; ``schedules()`` reads those that the store knows."""
        return list(self._tasks.plans.values())

    def middleware(self, function: M) -> M:
        """Wrap the running of each handler in ``async def name(claim, call)``; the first added is the outermost.

        ``await call()`` runs the handler, once. What the function returns is the job's result, and what it raises is
        how the job ends, as if the handler had done so. A worker takes what there is when it is made.
        """
        check_middleware(function)
        self._layers.append(function)
        return function

    @property
    def layers(self) -> list[Middleware]:
        """The middleware of this app, the outermost first."""
        return list(self._layers)

    def trace_context(self, function: C) -> C:
        """Have each job carry what this function returns when it is enqueued: texts by name, later ``job.trace``."""
        check_trace_context(function, self._trace)
        self._trace = function
        return function

    def instrument(self, telemetry: Telemetry) -> None:
        """Tell of each enqueue and each run of a handler; ``dibs.contrib.otel.instrument(app)`` is who calls this."""
        check_telemetry(self.telemetry, self._trace)
        self.telemetry, self._trace = telemetry, telemetry.context
        self._layers.insert(0, telemetry.process)

    def traced(self, jobs: Sequence[NewJob]) -> Sequence[NewJob]:
        """Put the caller's trace on jobs, if there is one to put."""
        return jobs if self._trace is None else traced(self._trace, jobs)

    # Enqueue

    async def enqueue(
        self, task: str, params: Json = None, *, connection: Any = None, **options: Unpack[EnqueueOptions]
    ) -> Job:
        """Enqueue one job by the name of its task; ``job.was_duplicate`` says that it was there already."""
        new = new_job(task, params, options, self._tasks.defaults(task))
        [job] = await send(self, [new], connection)
        return job

    async def enqueue_many(self, jobs: Sequence[NewJob], *, connection: Any = None) -> list[Job]:
        """Enqueue up to 1000 jobs, all of them or none."""
        check_new_jobs(jobs)
        completed = [with_defaults(new, self._tasks.defaults(new.task)) for new in jobs]
        return await send(self, completed, connection)

    # Claim

    async def claim(
        self,
        worker_id: str | None = None,
        *,
        id: str | None = None,
        queues: Sequence[str] | None = None,
        tasks: Sequence[str] | None = None,
        min_attempts_left: int = 1,
        order: Order | str = Order.PRIORITY,
        lease: Duration | None = None,
        wait: Duration = 0,
    ) -> Claim | None:
        """Claim the next due job, or the one of this id (which says why, if it cannot be); none if there is nothing."""
        ask = _ask(
            worker_id,
            id=id,
            queues=queues,
            tasks=tasks,
            min_attempts_left=min_attempts_left,
            order=order,
            lease=lease,
            wait=wait,
        )
        claims = await self._claim(ask)
        return claims[0] if claims else None

    async def claim_many(
        self,
        worker_id: str | None = None,
        *,
        limit: int,
        queues: Sequence[str] | None = None,
        tasks: Sequence[str] | None = None,
        min_attempts_left: int = 1,
        order: Order | str = Order.PRIORITY,
        lease: Duration | None = None,
        wait: Duration = 0,
    ) -> list[Claim]:
        """Claim up to so many due jobs at once; ``wait`` is for the first of them."""
        ask = _ask(
            worker_id,
            limit=limit,
            queues=queues,
            tasks=tasks,
            min_attempts_left=min_attempts_left,
            order=order,
            lease=lease,
            wait=wait,
        )
        return await self._claim(ask)

    async def claims(
        self,
        worker_id: str | None = None,
        *,
        queues: Sequence[str] | None = None,
        tasks: Sequence[str] | None = None,
        min_attempts_left: int = 1,
        order: Order | str = Order.PRIORITY,
        lease: Duration | None = None,
    ) -> AsyncIterator[Claim]:
        """Claim one job after another, for ever, waiting while there is none.

        What goes wrong inside ``async with claim`` is settled and logged there, and the loop goes on.
        """
        ask = _ask(
            worker_id,
            queues=queues,
            tasks=tasks,
            min_attempts_left=min_attempts_left,
            order=order,
            lease=lease,
            wait=LOOP_WAIT,
        )
        clock, failures = self.runtime.clock, 0
        while True:
            try:
                claims = await self._claim(ask, quiet=True)
                failures = 0
            except SchemaOutdated:
                raise
            except StoreUnavailable as error:
                failures += 1
                logger.warning("claiming will be tried again: %s", error)
                await clock.sleep(min(5.0, 0.1 * 2.0 ** min(failures, 6)) * clock.random.uniform(0.5, 1.0))
                continue
            for claim in claims:
                yield claim

    async def _claim(self, ask: Ask, *, quiet: bool = False) -> list[Claim]:
        # Race: cancelled with a job in hand. The broker gives it back; after that nothing is awaited here.
        self.runtime.maintain()
        jobs = await self.runtime.broker().claim(ask)
        return [Claim(self.runtime, job.ref, job, quiet=quiet) for job in jobs]

    def claimed(self, id: str, *, fence: int, lease_token: str) -> Claim:
        """Take up a claim that was made elsewhere, such as by a shell script."""
        ref = Ref(id, fence, lease_token)
        if problems := check_ref(ref):
            raise InvalidRequest(problems)
        return Claim(self.runtime, ref, None)

    # Looking

    async def get(self, id: str) -> Job | None:
        """Read a job; none if there is no such job."""
        return await self.runtime.broker().get(id)

    def find(
        self,
        *,
        status: Status | str | Sequence[Status | str] | None = None,
        queue: str | None = None,
        task: str | None = None,
        worker_id: str | None = None,
        batch_id: str | None = None,
        tag: str | None = None,
        q: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Job]:
        """Find jobs, newest first: a page at a time, or all of them in a loop."""
        where = Filter(status=status, queue=queue, task=task, worker_id=worker_id, batch_id=batch_id, tag=tag, q=q)
        return Page(lambda place: self.runtime.broker().find(where, limit=limit, cursor=place), cursor)

    async def log(self, id: str) -> list[Event]:
        """Read what has happened to a job, in order."""
        return await self.runtime.broker().log(id)

    async def explain(self, id: str) -> Explanation:
        """Say why a job is not running now."""
        return await self.runtime.broker().explain(id)

    async def wait(self, id: str, timeout: Duration | None = None) -> Job:
        """Wait until a job has ended; ``TimeoutError`` if that takes too long."""
        return await watching.wait(self.runtime, id, None if timeout is None else seconds("timeout", timeout))

    def watch(self, id: str) -> AsyncIterator[Job]:
        """Follow a job: as it is now, at each change of status or progress, and last as it ended."""
        return watching.watch(self.runtime, id)

    async def counts(self, queue: str | None = None) -> Counts:
        """Count jobs by state, of one queue or of all."""
        return await self.runtime.broker().counts(queue)

    async def queues(self) -> list[QueueInfo]:
        """List the queues that have jobs or are paused."""
        return await self.runtime.broker().queues()

    async def workers(self) -> list[WorkerInfo]:
        """List the workers that are known."""
        return await self.runtime.broker().workers()

    async def schedules(self) -> list[ScheduleInfo]:
        """List the schedules that workers have made known."""
        return await self.runtime.broker().schedules()

    async def schemas(self) -> list[SchemaInfo]:
        """List what the params of tasks must look like, as workers have published it."""
        return await self.runtime.broker().schemas()

    # What an operator does

    async def cancel(self, *ids: str, by: str | None = None) -> Changes:
        """Stop jobs that have not ended. One alone that cannot be stopped is an error; of several it is counted."""
        return await self.runtime.broker().cancel(ids, by=by)

    async def redrive(
        self, *ids: str, where: Filter | None = None, dry_run: bool = False, by: str | None = None
    ) -> Changes:
        """Run finished jobs again: those named, or those that match (failed ones, unless the filter says otherwise)."""
        return await self.runtime.broker().redrive(ids, where=where, dry_run=dry_run, by=by)

    async def purge(
        self, *ids: str, where: Filter | None = None, dry_run: bool = False, by: str | None = None
    ) -> Changes:
        """Remove finished jobs now: those named, or those that match (failed ones, unless the filter says more)."""
        return await self.runtime.broker().purge(ids, where=where, dry_run=dry_run, by=by)

    async def pause(self, queue: str, by: str | None = None) -> None:
        """Let a queue hand out nothing until it is resumed."""
        await self.runtime.broker().pause(queue, by=by)

    async def resume(self, queue: str, by: str | None = None) -> None:
        """Let a queue hand out jobs again."""
        await self.runtime.broker().resume(queue, by=by)

    async def pause_schedule(self, name: str, by: str | None = None) -> ScheduleInfo:
        """Let a schedule not tick until it is resumed."""
        return await self.runtime.broker().pause_schedule(name, by=by)

    async def resume_schedule(self, name: str, by: str | None = None) -> ScheduleInfo:
        """Let a schedule tick again; what it would have done while it was paused is not made up for."""
        return await self.runtime.broker().resume_schedule(name, by=by)

    async def run_schedule(self, name: str) -> Job:
        """Enqueue the job of a schedule now, beside its ticks, whether it is paused or not."""
        return await self.runtime.broker().run_schedule(name)

    async def once(self, key: str, function: Callable[[], Any]) -> Any:
        """Return what is kept under the key, or run the function and keep what it returns, for seven days."""
        return await once.once(self.runtime, key, function)

    def batch(self, *, on_end: Task[..., Any] | NewJob | None = None, id: str | None = None) -> Batch:
        """Begin a batch, ``async with app.batch(on_end=report) as batch``, sealed on leaving; or name one.

        ``on_end`` is what is enqueued once all of its jobs have ended: a task, which is given ``batch_id``, or a task's
        ``job(…)`` with arguments of its own. Jobs join by ``batch.add``, or by ``options(batch=batch.id)``.
        """
        from dibs.batches import Batch

        id = self.runtime.clock.new_id() if id is None else id
        if isinstance(on_end, Task):
            on_end = on_end.job(batch_id=id)
        elif on_end is not None:
            check_new_jobs([on_end])
            on_end = with_defaults(on_end, self._tasks.defaults(on_end.task))
        return Batch(self, id, on_end)

    async def verify(self, progress: Callable[[int], None] | None = None) -> Report:
        """Replay the store's log and prove the promises on it; ``progress`` is told how many jobs have been checked."""
        return await self.runtime.broker().verify(progress)

    async def migrate(self, dry_run: bool = False) -> list[str]:  # noqa: FBT001, FBT002 - the contract's signature
        """Bring the store's schema up to date; say which steps were (or would be) taken."""
        return await self.runtime.broker().migrate(dry_run=dry_run)

    # The end

    async def close(self) -> None:
        """Let go of everything. What is used after that is opened again."""
        await self.runtime.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<App {re.sub('//[^/@]*@', '//…@', self.url)}>"


def _check_key(api_key: str | None, url: str) -> list[Problem]:
    if api_key is None or is_server(url):
        return []
    return [Problem("api_key", "is for a server, by http:// or https://; this store asks for none")]


def _ask(worker_id: str | None, **wishes: Any) -> Ask:
    return Ask(worker_id=default_worker_id() if worker_id is None else worker_id, **wishes)


@cache
def _host() -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "-", socket.gethostname())[:100] or "host"


def default_worker_id() -> str:
    """Name this process by its host and number."""
    return f"{_host()}-{os.getpid()}"
