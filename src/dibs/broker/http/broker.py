"""The broker over a server: it sends intentions there, where they are decided, and reads what came of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import msgspec

from dibs.broker.batching import Batcher
from dibs.broker.http import asking
from dibs.broker.http.errors import stranger
from dibs.broker.http.remote import Line, Remote, Request
from dibs.broker.intake import (
    check_actor,
    check_ask,
    check_change,
    check_extensions,
    check_id,
    check_ids,
    check_queue,
    check_refs,
    query_of,
)
from dibs.broker.protocol import BEAT_EVERY, Ask, Changes, Ending
from dibs.broker.roster import MAX_METADATA, check_beat
from dibs.broker.schedules import check_schedule_names
from dibs.domain import checks
from dibs.domain.batch import check_batch_id, info_of
from dibs.domain.errors import InvalidRequest, NotFound, NothingPending, NotSupported
from dibs.domain.job import Explanation, Extension, Outcome
from dibs.domain.retry import SECOND
from dibs.domain.schedule import Ticked
from dibs.domain.schema import check_offers
from dibs.domain.settings import MAX_BATCH, MAX_BATCH_BYTES
from dibs.domain.validate import encode
from dibs.store import Written
from dibs.wire import answered, batches, read
from dibs.wire import schedules as wire
from dibs.wire import schemas as described
from dibs.wire.asked import (
    MAX_LIST,
    Cancelling,
    Changing,
    ExtendingMany,
    NewTasks,
    Operating,
    Putting,
    Settling,
    SettlingMany,
    WorkerBeat,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dibs.broker.http.link import Response
    from dibs.clock import Clock
    from dibs.domain.audit import Report
    from dibs.domain.batch import BatchInfo
    from dibs.domain.job import Counts, Document, Event, Filter, Job, Json, QueueInfo, Ref, WorkerInfo
    from dibs.domain.newjob import NewJob
    from dibs.domain.retry import Duration
    from dibs.domain.schedule import Plan, ScheduleInfo
    from dibs.domain.schema import Offer, SchemaInfo
    from dibs.domain.settings import Config

POLL = 25.0
"""Seconds that one request waits for a job at the most: proxies cut longer ones."""
TICK = 1e-6
"""Seconds; what a clock that counts microseconds cannot tell apart from nothing."""
NAP = 0.1
"""Seconds before the next request, if the one before was answered too early: by a server that stops."""

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode
_decoders: dict[type[Any], msgspec.json.Decoder[Any]] = {}


class HttpBroker:
    """Implements ``Broker`` for one event loop; any number of them may share a server."""

    def __init__(self, remote: Remote, clock: Clock, config: Config) -> None:
        self._remote = remote
        self._clock = clock
        self._config = config
        self._extends = Batcher[Extension, Outcome](self._send_extensions, most=MAX_BATCH)
        self._settles = Batcher[Settling, Written](self._send_endings, most=MAX_BATCH_BYTES, weight=_weight)

    @property
    def _line(self) -> Line:
        return self._remote.line()

    async def _post(self, path: str, body: Any, kind: type[T], *, again: bool = False) -> T:
        return self._read(await self._line.ask(Request("POST", path, _encode(body), again)), kind)

    async def _get(self, path: str, kind: type[T]) -> T:
        return self._read(await self._line.ask(Request("GET", path, None, again=True)), kind)

    def _read(self, response: Response, kind: type[T]) -> T:
        decoder = _decoders.get(kind)
        if decoder is None:
            decoder = _decoders[kind] = msgspec.json.Decoder(kind)
        try:
            found: T = decoder.decode(response.body)
        except msgspec.DecodeError:
            raise stranger(response, self._remote.address.name) from None
        return found

    # Enqueue

    async def enqueue(self, jobs: Sequence[NewJob], *, connection: Any = None) -> list[Job]:
        _refuse(connection)
        tasks = asking.new_tasks(jobs, self._config, self._clock)
        if not tasks:
            return []
        body = _encode(tasks[0] if len(tasks) == 1 else NewTasks(tasks=tasks))
        response = await self._line.ask(Request("POST", "/api/tasks", body, again=True, jobs=True))
        if len(tasks) == 1:
            found = [self._read(response, answered.Enqueued).task]
        else:
            found = self._read(response, answered.EnqueuedMany).tasks
        given = {new.id for new in jobs}
        return [
            _as_new(task, mine.id not in given and task.id == mine.id) for task, mine in zip(found, tasks, strict=True)
        ]

    # Claim

    async def claim(self, ask: Ask) -> list[Job]:
        _, wait = check_ask(ask, "")
        if ask.id is not None:
            path = f"/api/tasks/{ask.id}/claim"
            return await self._claim(Request("POST", path, _encode(asking.claiming_one(ask)), undo=self._give_back))
        end = self._clock.monotonic() + wait
        left = wait
        while True:
            # Those who lost their server together are not to come back together, again and again.
            now = min(left, POLL * self._clock.random.uniform(0.5, 1.0))
            request = Request(
                "POST",
                "/api/tasks/claim",
                _encode(asking.claiming(ask, now)),
                seconds=now,
                undo=self._give_back,
            )
            began = self._clock.monotonic()
            try:
                return await self._claim(request)
            except NothingPending:
                left = end - self._clock.monotonic()
                if left < TICK:
                    return []
            if self._clock.monotonic() - began < now - TICK:
                await self._clock.sleep(min(NAP, left))

    async def _claim(self, request: Request) -> list[Job]:
        return self._claimed(await self._line.ask(request))

    def _claimed(self, response: Response) -> list[Job]:
        claimed = self._read(response, answered.Claimed)
        return [read.job_of(task) for task in claimed.tasks or [claimed.task]]

    async def _give_back(self, response: Response) -> None:
        """Race: the caller gave up as its answer came. Nobody holds the jobs, so give them back at once."""
        await self.settle([Ending(job.ref, "release") for job in self._claimed(response)])

    # Extend and settle

    async def extend(self, extensions: Sequence[Extension]) -> list[Outcome]:
        check_extensions(extensions)
        return await self._extends.call(extensions)

    async def _send_extensions(self, extensions: list[Extension]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for start in range(0, len(extensions), MAX_BATCH):
            claims = [asking.extending(extension) for extension in extensions[start : start + MAX_BATCH]]
            many = await self._post(
                "/api/tasks/extend", ExtendingMany(claims=claims), answered.ExtendedMany, again=True
            )
            outcomes += [Outcome(item.outcome) for item in many.outcomes]
        return outcomes

    async def settle(self, endings: Sequence[Ending], *, connection: Any = None) -> list[Written]:
        _refuse(connection)
        check_refs([ending.ref for ending in endings], "endings")
        return await self._settles.call([asking.settling(ending, self._config) for ending in endings])

    async def _send_endings(self, endings: list[Settling]) -> list[Written]:
        written: list[Written] = []
        for part in _parts(endings):
            body = _encode(SettlingMany(claims=part))
            response = await self._line.ask(Request("POST", "/api/tasks/settle", body, again=True))
            many = self._read(response, answered.SettledMany)
            written += [_written(item, in_doubt=response.in_doubt) for item in many.outcomes]
        return written

    # What an operator does

    async def cancel(self, ids: Sequence[str], *, by: str | None = None) -> Changes:
        check_actor(by)
        check_ids(ids)
        changes = [
            await self._change("/api/tasks/cancel", Cancelling(ids=list(part), by=by), again=True)
            for part in _thousands(ids)
        ]
        return _sum(changes)

    async def redrive(
        self, ids: Sequence[str], *, where: Filter | None = None, dry_run: bool = False, by: str | None = None
    ) -> Changes:
        return await self._change_finished("/api/dead/redrive", ids, where, dry_run=dry_run, by=by)

    async def purge(
        self, ids: Sequence[str], *, where: Filter | None = None, dry_run: bool = False, by: str | None = None
    ) -> Changes:
        return await self._change_finished("/api/dead/purge", ids, where, dry_run=dry_run, by=by)

    async def _change_finished(
        self, path: str, ids: Sequence[str], where: Filter | None, *, dry_run: bool, by: str | None
    ) -> Changes:
        check_actor(by)
        check_change(ids, where)
        if where is not None:
            asked = Changing(filter=asking.task_filter(where), dry_run=dry_run, by=by)
            return await self._change(path, asked, again=dry_run)
        check_ids(ids)
        asks = [Changing(ids=list(part), dry_run=dry_run, by=by) for part in _thousands(ids)]
        return _sum([await self._change(path, asked, again=dry_run) for asked in asks])

    async def _change(self, path: str, asked: Any, *, again: bool) -> Changes:
        many = await self._post(path, asked, answered.ChangedMany, again=again)
        return Changes(**{name: getattr(many, name) for name in Changes.__struct_fields__})

    # Looking

    async def get(self, id: str) -> Job | None:
        check_id(id)
        try:
            return read.job_of((await self._get(f"/api/tasks/{id}", answered.OneTask)).task)
        except NotFound:
            return None

    async def find(
        self, where: Filter, *, limit: int, cursor: str | None, oldest_first: bool = False
    ) -> tuple[list[Job], str | None]:
        query_of(where, limit=limit, cursor=None)
        fields = msgspec.to_builtins(asking.task_filter(where))
        if oldest_first:
            fields["sort"] = "created_at"
        jobs: list[Job] = []
        while True:
            asked = {**fields, "limit": min(MAX_LIST, limit - len(jobs)), "cursor": cursor}
            page = await self._get(asking.in_query("/api/tasks", asked), answered.Page)
            jobs += map(read.job_of, page.tasks)
            cursor = page.next_cursor
            if cursor is None or len(jobs) >= limit:
                return jobs, cursor

    async def log(self, id: str) -> list[Event]:
        check_id(id)
        try:
            entries = (await self._get(f"/api/tasks/{id}/log", answered.Log)).events
        except NotFound:
            return []
        return [read.event_of(id, entry) for entry in entries]

    async def explain(self, id: str) -> Explanation:
        check_id(id)
        explained = await self._get(f"/api/tasks/{id}/explain", answered.Explained)
        return Explanation(explained.code, explained.message, read.job_of(explained.task))

    async def counts(self, queue: str | None = None) -> Counts:
        if queue is not None:
            check_queue(queue)
        stats = await self._get(asking.in_query("/api/stats", {"queue": queue}), answered.Stats)
        return read.counts_of(stats.counts)

    async def queues(self) -> list[QueueInfo]:
        return list(map(read.queue_info, (await self._get("/api/queues", answered.Queues)).queues))

    # Workers

    async def beat(
        self,
        worker_id: str,
        extensions: Sequence[Extension] = (),
        *,
        metadata: Mapping[str, Json] | None = None,
        every: Duration = BEAT_EVERY,
    ) -> list[Outcome]:
        check_beat(worker_id, metadata)
        seconds = checks.seconds("every", every)
        known = encode("metadata", metadata or {}, MAX_METADATA, InvalidRequest)
        check_extensions(extensions)
        body: Any = WorkerBeat(worker_id=worker_id, metadata=msgspec.Raw(known), every_seconds=seconds)  # type: ignore[arg-type]
        await self._post("/api/workers/heartbeat", body, answered.Beaten, again=True)
        # Apart: a heartbeat names what it has kept by job, and a job may be named under two claims.
        return await self._extends.call(extensions)

    async def retire(self, worker_id: str, refs: Sequence[Ref] = ()) -> list[Written]:
        check_beat(worker_id, None)
        released = await self.settle([Ending(ref, "release") for ref in refs])
        await self._post(f"/api/workers/{worker_id}/shutdown", {}, answered.Shutdown, again=True)
        return released

    async def workers(self) -> list[WorkerInfo]:
        return list(map(read.worker_info, (await self._get("/api/workers", answered.Workers)).workers))

    # Schedules

    async def publish(self, plans: Sequence[Plan]) -> None:
        asked = asking.publishing(plans, self._config, self._clock)
        await self._post("/api/schedules", asked, wire.Published, again=True)

    async def tick(self, names: Sequence[str]) -> Ticked:
        check_schedule_names(names)
        asked = wire.Ticking(names=list(names))
        ticked = await self._post("/api/schedules/tick", asked, wire.Ticked, again=True)
        return Ticked(ticked.enqueued, ticked.next_in_seconds, tuple(ticked.unknown))

    async def schedules(self) -> list[ScheduleInfo]:
        return list(map(wire.schedule_info, (await self._get("/api/schedules", wire.Schedules)).schedules))

    async def pause_schedule(self, name: str, *, by: str | None = None) -> ScheduleInfo:
        return await self._switch_schedule(name, "pause", by)

    async def resume_schedule(self, name: str, *, by: str | None = None) -> ScheduleInfo:
        return await self._switch_schedule(name, "resume", by)

    async def _switch_schedule(self, name: str, verb: str, by: str | None) -> ScheduleInfo:
        check_schedule_names([name])
        check_actor(by)
        path = f"/api/schedules/{quote(name)}/{verb}"
        return wire.schedule_info((await self._post(path, Operating(by=by), wire.OneSchedule, again=True)).schedule)

    async def run_schedule(self, name: str) -> Job:
        check_schedule_names([name])
        return read.job_of((await self._post(f"/api/schedules/{quote(name)}/run", {}, answered.OneTask)).task)

    # Schemas

    async def publish_schemas(self, offers: Sequence[Offer], *, by: str | None = None) -> int:
        check_actor(by)
        check_offers(offers)
        asked = asking.offering(offers, by)
        return (await self._post("/api/schemas", asked, described.Offered, again=True)).written

    async def schemas(self) -> list[SchemaInfo]:
        return list(map(described.schema_info, (await self._get("/api/schemas", described.Schemas)).schemas))

    # Batches

    async def seal(self, batch_id: str, on_end: NewJob) -> None:
        asked = asking.sealing(batch_id, on_end, self._config, self._clock)
        await self._post(f"/api/batches/{quote(batch_id, safe='')}/seal", asked, batches.Sealed, again=True)

    async def end_batches(self) -> None:
        await self._post("/api/batches/end", {}, batches.Looked, again=True)

    async def batch(self, batch_id: str, *, queue: str | None = None) -> BatchInfo:
        check_batch_id(batch_id)
        try:
            path = f"/api/batches/{quote(batch_id, safe='')}"
            found = await self._get(asking.in_query(path, {"queue": queue}), batches.Batch)
        except NotFound:
            return info_of(batch_id, {}, exact=True)
        return batches.batch_info(found)

    # Queues and documents

    async def pause(self, queue: str, *, by: str | None = None) -> None:
        await self._switch(queue, "pause", by)

    async def resume(self, queue: str, *, by: str | None = None) -> None:
        await self._switch(queue, "resume", by)

    async def _switch(self, queue: str, verb: str, by: str | None) -> None:
        check_queue(queue)
        check_actor(by)
        await self._post(f"/api/queues/{quote(queue)}/{verb}", Operating(by=by), answered.Switched, again=True)

    async def read(self, name: str) -> Document | None:
        found = await self._documents({"name": name})
        return found[0] if found else None

    async def documents(self, prefix: str) -> list[Document]:
        return await self._documents({"prefix": prefix})

    async def _documents(self, asked: dict[str, str]) -> list[Document]:
        found = await self._get(asking.in_query("/api/documents", asked), answered.Documents)
        return list(map(read.document_of, found.documents))

    async def put(
        self, name: str, value: bytes | None, *, expect: int | None = None, keep_us: int | None = None
    ) -> Document | None:
        keep = None if keep_us is None else keep_us / SECOND
        asked = Putting(name=name, value=value, expect=expect, keep_seconds=keep)
        put = await self._post("/api/documents", asked, answered.Put)
        return None if put.document is None else read.document_of(put.document)

    # The whole store

    async def maintain(self) -> None:
        """Do nothing, until cancelled: a server looks after its store by itself."""
        await asyncio.get_running_loop().create_future()

    async def verify(self, progress: Callable[[int], None] | None = None) -> Report:
        response = await self._line.ask(Request("POST", "/api/verify", None, again=True, seconds=None))
        report = read.report_of(self._read(response, answered.Verified))
        if progress is not None:
            progress(report.jobs)
        return report

    async def migrate(self, *, dry_run: bool = False) -> list[str]:
        del dry_run
        raise NotSupported(
            "a store is not migrated through its server", hint="Run `dibs migrate --store …` where the store is."
        )


def _refuse(connection: Any) -> None:
    if connection is not None:
        raise NotSupported(
            "a server knows nothing of your transaction", hint="Use the store's own URL where you need it."
        )


def _as_new(task: answered.Task, mine: bool) -> Job:  # noqa: FBT001 - said where it is called
    """Read a job that was enqueued. Under an id that was made for this call it is new, however often it was sent."""
    job = read.job_of(task)
    return msgspec.structs.replace(job, was_duplicate=False) if mine else job


def _written(outcome: answered.SettleOutcome, *, in_doubt: bool) -> Written:
    if outcome.outcome != "lost":
        return Written(Outcome(outcome.outcome), outcome.status)
    if in_doubt:
        return Written(Outcome.IN_DOUBT, outcome.status)
    return Written(Outcome.MISSING if outcome.status is None else Outcome.LOST, outcome.status)


def _weight(ending: Settling) -> int:
    """Weigh an ending so that a batch has neither more of them nor more bytes than a server takes."""
    size = len(ending.result) if isinstance(ending.result, msgspec.Raw) else 0
    return max(MAX_BATCH_BYTES // MAX_BATCH, size)


def _parts(endings: list[Settling]) -> list[list[Settling]]:
    """Split what one caller asked for, where it is more than a server takes at once; each ends for itself anyway."""
    parts: list[list[Settling]] = [[]]
    total = 0
    for ending in endings:
        total += _weight(ending)
        if total > MAX_BATCH_BYTES and parts[-1]:
            parts.append([])
            total = _weight(ending)
        parts[-1].append(ending)
    return parts


def _thousands(ids: Sequence[str]) -> list[Sequence[str]]:
    """Split ids into as many as a server takes at once; none is left alone, for of one alone a refusal is an error."""
    step = next(step for step in range(MAX_BATCH, 0, -1) if len(ids) == 1 or len(ids) % step != 1)
    return [ids[start : start + step] for start in range(0, len(ids), step)]


def _sum(changes: list[Changes]) -> Changes:
    numbers = [name for name in Changes.__struct_fields__ if name != "dry_run"]
    return Changes(
        dry_run=changes[0].dry_run, **{name: sum(getattr(part, name) for part in changes) for name in numbers}
    )
