"""The broker over a store: checks what is wished, asks the domain what becomes of it, has the store write it down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from dibs.broker.batches import Batches
from dibs.broker.batching import Batcher
from dibs.broker.bulk import Bulk
from dibs.broker.handover import is_mark
from dibs.broker.intake import (
    check_actor,
    check_ask,
    check_extensions,
    check_failure,
    check_id,
    check_queue,
    check_refs,
    check_verb,
    drafts_of,
    query_of,
    read_cursor,
)
from dibs.broker.line import Lines
from dibs.broker.maintenance import Maintenance
from dibs.broker.protocol import BEAT_EVERY, Ask, Changes, Ending
from dibs.broker.rates import Meter, Rates
from dibs.broker.roster import Roster, check_beat
from dibs.broker.schedules import Schedules
from dibs.broker.schemas import Schemas
from dibs.domain import checks, transitions
from dibs.domain.audit import Checker, Report
from dibs.domain.errors import (
    IdempotencyMismatch,
    InvalidRequest,
    NotFound,
    StoreUnavailable,
)
from dibs.domain.explain import explain, not_claimable
from dibs.domain.job import (
    ClaimRequest,
    Counts,
    Document,
    Draft,
    Event,
    Explanation,
    Extension,
    Filter,
    Job,
    Outcome,
    QueueInfo,
    WorkerInfo,
)
from dibs.domain.retry import micros
from dibs.domain.settings import MAX_BATCH, MAX_BATCH_BYTES, MAX_CLAIM
from dibs.domain.transitions import complete
from dibs.domain.validate import encode
from dibs.store import PAUSED, Refusal, Written

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dibs.clock import Clock
    from dibs.domain.batch import BatchInfo
    from dibs.domain.job import Json, Ref
    from dibs.domain.newjob import NewJob
    from dibs.domain.retry import Duration
    from dibs.domain.schedule import Plan, ScheduleInfo, Ticked
    from dibs.domain.schema import Offer, SchemaInfo
    from dibs.domain.settings import Config
    from dibs.domain.transitions import Write
    from dibs.store import Store

_BUSY = Outcome.BUSY
BUSY_TRIES = 60
"""How often a row is asked for again that another transaction holds: for about ten seconds."""
AUDIT_STEP = 1000


class LocalBroker:
    """Implements ``Broker`` for one event loop; any number of them may share a store."""

    def __init__(self, store: Store, clock: Clock, config: Config, meter: Meter | None = None) -> None:
        self._store = store
        self._clock = clock
        self._config = config
        self._opened = False
        self._meter = meter or Meter(clock)
        self._rates = Rates(store, self._meter)
        self._batches = Batches(store, clock, config, self._insert)
        self._maintenance = Maintenance(store, clock, config)
        self._inserts = Batcher[list[Draft], list[Job] | Refusal](store.insert, most=MAX_BATCH_BYTES, weight=_weight)
        self._claims = Batcher[ClaimRequest, list[Job]](
            self._hand_out, most=MAX_CLAIM, weight=lambda request: request.limit, give_back=self._release_abandoned
        )
        self._roster = Roster(store)
        self._lines = Lines(store, clock, config, self._maintenance, self._claims.call, rivals=self._roster.rivals)
        self._extends = Batcher[Extension, Outcome](store.extend, most=MAX_BATCH)
        self._writes = Batcher[transitions.Write, Written](store.write, most=MAX_BATCH)
        self._gets = Batcher[str, "Job | None"](store.get, most=MAX_BATCH)
        self._bulk = Bulk(store, self._write)
        self._schedules = Schedules(store, clock, config, self._insert)
        self._schemas = Schemas(store)

    async def _open(self) -> None:
        if not self._opened:
            await self._store.open()
            self._opened = True

    # Enqueue

    async def enqueue(self, jobs: Sequence[NewJob], *, connection: Any = None) -> list[Job]:
        drafts = drafts_of(jobs, self._config, self._clock)
        await self._open()
        if not drafts:
            return []
        if connection is not None:
            [answer] = await self._store.insert([drafts], connection=connection)
        else:
            answer = await self._insert(drafts)
        if isinstance(answer, Refusal):
            raise _mismatch(answer, drafts)
        return answer

    async def _insert(self, drafts: list[Draft]) -> list[Job] | Refusal:
        [answer] = await self._inserts.call([drafts])
        if isinstance(answer, Refusal) and answer.busy:  # whoever waits for another's open transaction waits alone
            [answer] = await self._store.insert([drafts])
        return answer

    # Claim

    async def claim(self, ask: Ask) -> list[Job]:
        request, wait = check_ask(ask, self._clock.token())
        await self._open()
        [jobs] = await self._claims.call([request])
        if not jobs and await self._maintenance.reap_any():
            # No reaper is needed: whoever finds nothing looks after the leases that ran out, and looks once more.
            [jobs] = await self._claims.call([request])
        if request.id is not None:
            if not jobs:
                raise not_claimable(await self.explain(request.id))
            return jobs
        return jobs or (await self._lines.wait(request, wait) if wait > 0 else [])

    async def _hand_out(self, requests: Sequence[ClaimRequest]) -> list[list[Job]]:
        answers = await self._store.claim(requests)
        self._meter.claimed(answers)
        return answers

    async def _release_abandoned(self, answers: list[list[Job]]) -> None:
        """Race: the caller gave up while its claim was on its way. Nobody holds the jobs, so give them back at once."""
        await self._writes.call([transitions.release(job.ref) for jobs in answers for job in jobs])

    # Extend and settle

    async def extend(self, extensions: Sequence[Extension]) -> list[Outcome]:
        check_extensions(extensions)
        await self._open()
        return await self._extends.call(extensions)

    async def settle(self, endings: Sequence[Ending], *, connection: Any = None) -> list[Written]:
        check_refs([ending.ref for ending in endings], "endings")
        writes = [
            complete(ending.ref) if ending.verb == "complete" and ending.result is None else self._decide(ending)
            for ending in endings
        ]
        await self._open()
        if None in writes:
            await self._decide_failures(endings, writes)
        decided = [write for write in writes if write is not None]
        if connection is not None:
            written = await self._store.write(decided, connection=connection)
        else:
            written = await self._write(decided)
        if len(decided) == len(writes):
            return written
        answers = iter(written)
        return [Written(Outcome.MISSING, None) if write is None else next(answers) for write in writes]

    def _decide(self, ending: Ending) -> Write | None:
        """Decide what needs no more than the ending; none for a failure, which depends on the job."""
        if ending.verb == "complete":
            return complete(ending.ref, encode("result", ending.result, self._config.max_result_bytes, InvalidRequest))
        check_verb(ending)
        if ending.verb == "fail":
            return None
        if ending.delay is None:
            return transitions.release(ending.ref)
        return transitions.release(ending.ref, micros(checks.seconds("delay", ending.delay)))

    async def _decide_failures(self, endings: Sequence[Ending], writes: list[Write | None]) -> None:
        """Fill in the failures, by the attempts made, which no one else can change; one without a job stays none."""
        failures = [(place, ending) for place, ending in enumerate(endings) if writes[place] is None]
        read = iter(await self._gets.call([ending.ref.id for _, ending in failures if ending.job is None]))
        for place, ending in failures:
            job = next(read) if ending.job is None else ending.job
            if job is not None and ending.failure is not None:
                writes[place] = transitions.fail(job, ending.ref, check_failure(ending.failure), self._clock.random)

    async def _write(self, writes: Sequence[Write]) -> list[Written]:
        """Write, and ask again for the rows that another transaction holds."""
        answers = await self._writes.call(writes)
        for attempt in range(BUSY_TRIES):
            busy = [i for i, answer in enumerate(answers) if answer.outcome is _BUSY]
            if not busy:
                return answers
            await self._clock.sleep(min(0.2, 0.005 * 2**attempt))
            for place, answer in zip(busy, await self._writes.call([writes[i] for i in busy]), strict=True):
                answers[place] = answer
        raise StoreUnavailable("another transaction holds the job's row", hint="End that transaction, then try again.")

    # What an operator does

    async def cancel(self, ids: Sequence[str], *, by: str | None = None) -> Changes:
        check_actor(by)
        await self._open()
        return await self._bulk.named(ids, lambda id: transitions.cancel(id, by))

    async def redrive(
        self, ids: Sequence[str], *, where: Filter | None = None, dry_run: bool = False, by: str | None = None
    ) -> Changes:
        check_actor(by)
        await self._open()
        return await self._bulk.change(ids, where, lambda id: transitions.redrive(id, by), dry_run=dry_run)

    async def purge(
        self, ids: Sequence[str], *, where: Filter | None = None, dry_run: bool = False, by: str | None = None
    ) -> Changes:
        check_actor(by)
        await self._open()
        return await self._bulk.change(ids, where, lambda id: transitions.purge(id, by), dry_run=dry_run)

    # Looking

    async def get(self, id: str) -> Job | None:
        check_id(id)
        await self._open()
        [job] = await self._gets.call([id])
        return job

    async def find(
        self, where: Filter, *, limit: int, cursor: str | None, oldest_first: bool = False
    ) -> tuple[list[Job], str | None]:
        query = query_of(where, limit=limit, cursor=read_cursor(cursor), oldest_first=oldest_first)
        await self._open()
        jobs, place = await self._store.find(query)
        return jobs, None if place is None else str(place)

    async def log(self, id: str) -> list[Event]:
        check_id(id)
        await self._open()
        return await self._store.log(id)

    async def explain(self, id: str) -> Explanation:
        job = await self.get(id)
        if job is None:
            raise NotFound(f"there is no job {id!r}")
        pause = await self.read(PAUSED + job.queue)
        paused, moved = pause is not None, pause is not None and is_mark(pause)
        now = await self._store.now()
        explained = explain(job, paused=paused, now=now, moved=moved)
        if explained.code != "ready":
            return explained
        return explain(job, paused=paused, now=now, takers=await self._roster.takers(job.task, job.queue))

    async def counts(self, queue: str | None = None) -> Counts:
        if queue is not None:
            check_queue(queue)
        await self._open()
        return await self._store.counts(queue)

    async def queues(self) -> list[QueueInfo]:
        await self._open()
        rates = await self._rates.read()
        return [
            msgspec.structs.replace(info, claimed_per_minute=rates[info.queue]) if info.queue in rates else info
            for info in await self._store.queues()
        ]

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
        every_us = micros(checks.seconds("every", every))
        check_extensions(extensions)
        await self._open()
        await self._roster.beat(worker_id, metadata, every_us)
        return await self._extends.call(extensions)

    async def retire(self, worker_id: str, refs: Sequence[Ref] = ()) -> list[Written]:
        check_beat(worker_id, None)
        released = await self.settle([Ending(ref, "release") for ref in refs])
        await self._open()
        await self._roster.retire(worker_id)
        return released

    async def workers(self) -> list[WorkerInfo]:
        await self._open()
        return await self._roster.all()

    # Schedules

    async def publish(self, plans: Sequence[Plan]) -> None:
        await self._open()
        await self._schedules.publish(plans)

    async def tick(self, names: Sequence[str]) -> Ticked:
        await self._open()
        return await self._schedules.tick(names)

    async def schedules(self) -> list[ScheduleInfo]:
        await self._open()
        return await self._schedules.all()

    async def pause_schedule(self, name: str, *, by: str | None = None) -> ScheduleInfo:
        check_actor(by)
        await self._open()
        return await self._schedules.switch(name, paused=True, by=by)

    async def resume_schedule(self, name: str, *, by: str | None = None) -> ScheduleInfo:
        check_actor(by)
        await self._open()
        return await self._schedules.switch(name, paused=False, by=by)

    async def run_schedule(self, name: str) -> Job:
        await self._open()
        return await self._schedules.run(name)

    # Schemas

    async def publish_schemas(self, offers: Sequence[Offer], *, by: str | None = None) -> int:
        check_actor(by)
        await self._open()
        return await self._schemas.publish(offers, by)

    async def schemas(self) -> list[SchemaInfo]:
        await self._open()
        return await self._schemas.all()

    # Batches

    async def seal(self, batch_id: str, on_end: NewJob) -> None:
        await self._open()
        await self._batches.seal(batch_id, on_end)

    async def end_batches(self) -> None:
        await self._open()
        await self._batches.look()

    async def batch(self, batch_id: str, *, queue: str | None = None) -> BatchInfo:
        await self._open()
        return await self._batches.info(batch_id, queue)

    # Queues and documents

    async def pause(self, queue: str, *, by: str | None = None) -> None:
        check_queue(queue)
        check_actor(by)
        await self._open()
        await self._store.put(PAUSED + queue, msgspec.json.encode({"by": by}))

    async def resume(self, queue: str, *, by: str | None = None) -> None:
        check_queue(queue)
        check_actor(by)  # and no more: a queue that runs keeps no record of who let it
        await self._open()
        await self._store.put(PAUSED + queue, None)

    async def read(self, name: str) -> Document | None:
        await self._open()
        return await self._store.read(name)

    async def documents(self, prefix: str) -> list[Document]:
        await self._open()
        return await self._store.documents(prefix)

    async def put(
        self, name: str, value: bytes | None, *, expect: int | None = None, keep_us: int | None = None
    ) -> Document | None:
        await self._open()
        return await self._store.put(name, value, expect=expect, keep_us=keep_us)

    # The whole store

    async def maintain(self) -> None:
        await self._open()
        await self._maintenance.run(self._batches, self._rates)

    async def verify(self, progress: Callable[[int], None] | None = None) -> Report:
        await self._open()
        checker = Checker()
        jobs = 0
        cursor: str | None = None
        while True:
            # A key may change hands between two pages; the time of reading tells that from two jobs that share one.
            read_us = await self._store.now()
            audit = await self._store.audit(cursor, AUDIT_STEP)
            for job, events in audit.items:
                checker.add(job, events, read_us=read_us)
            jobs += len(audit.items)
            if progress is not None:
                progress(jobs)
            cursor = audit.cursor
            if cursor is None:
                return checker.report()

    async def migrate(self, *, dry_run: bool = False) -> list[str]:
        return await self._store.migrate(dry_run=dry_run)


def _weight(drafts: Sequence[Draft]) -> int:
    """Weigh a group so that a merged batch has neither more jobs nor more bytes than a single caller's may have."""
    return sum(max(MAX_BATCH_BYTES // MAX_BATCH, len(draft.params_json)) for draft in drafts)


def _mismatch(refusal: Refusal, drafts: Sequence[Draft]) -> IdempotencyMismatch:
    draft, job = drafts[refusal.index], refusal.job
    value = getattr(draft, refusal.field)
    if (job.task, job.queue, job.params_json) == (draft.task, draft.queue, draft.params_json):
        what = f"belongs to another job than {job.id!r}, which the rest of the request names"
    else:
        what = "belongs to a job with another task, queue or params"
    message = f"{refusal.field} {value!r} {what}"
    return IdempotencyMismatch(refusal.field, message, refusal.index if len(drafts) > 1 else None)
