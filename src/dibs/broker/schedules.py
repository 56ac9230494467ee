"""Schedules over a store: each is a document, changed by compare-and-set only; each tick a job with a key of its own.

Any number of processes may look after one schedule. All of them enqueue what is due, under the tick's own key, so that
the first makes the job and the others find it; then they move the document on, and one of them succeeds. Whoever dies
in between leaves a tick that is found due once more, and enqueued under the same key.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from dibs.broker.intake import drafts_of
from dibs.domain import schedule
from dibs.domain.checks import check_names
from dibs.domain.errors import Invalid, InvalidRequest, NotFound, Problem, StoreUnavailable, TooLarge
from dibs.domain.retry import SECOND
from dibs.domain.schedule import Record, ScheduleInfo, Ticked
from dibs.store import Refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from dibs.clock import Clock
    from dibs.domain.job import Document, Draft, Job
    from dibs.domain.schedule import Plan
    from dibs.domain.settings import Config
    from dibs.store import Store

    Insert = Callable[[list[Draft]], Awaitable[list[Job] | Refusal]]

logger = logging.getLogger("dibs")

SCHEDULES = "schedule/"
"""Documents of this prefix are the schedules: ``schedule/report`` is that of ``report``."""
TRIES = 20
"""How often a change is tried again that others were faster with."""

_decoder = msgspec.json.Decoder(Record)


class Schedules:
    """Publishes schedules, and enqueues their ticks."""

    def __init__(self, store: Store, clock: Clock, config: Config, insert: Insert) -> None:
        self._store = store
        self._clock = clock
        self._config = config
        self._insert = insert

    # What a worker does

    async def publish(self, plans: Sequence[Plan]) -> None:
        """Make known what the code says. What an operator or a tick has changed since stays as it is."""
        drafts = drafts_of_plans(plans, self._config, self._clock)
        for plan, draft in zip(plans, drafts, strict=True):
            await self._publish(plan, draft)

    async def _publish(self, plan: Plan, draft: Draft) -> None:
        for _ in range(TRIES):
            found = await self._store.read(SCHEDULES + plan.name)
            known = None if found is None else _decoder.decode(found.value)
            record = schedule.published(known, plan, draft, await self._store.now())
            if record == known or await self._put(plan.name, record, 0 if found is None else found.version):
                return
        raise _contended(plan.name)

    async def tick(self, names: Sequence[str]) -> Ticked:
        """Enqueue what is due of these schedules."""
        check_schedule_names(names)
        found = {document.name: document for document in await self._store.documents(SCHEDULES)}
        now = await self._store.now()
        enqueued, times = 0, list[int]()
        unknown = tuple(name for name in names if SCHEDULES + name not in found)
        for name in dict.fromkeys(names):
            if name not in unknown:
                number, next_us = await self._tick(name, found[SCHEDULES + name], now)
                enqueued += number
                times += [] if next_us is None else [next_us]
        soonest = max(0, min(times) - now) / SECOND if times else None
        return Ticked(enqueued, soonest, unknown)

    async def _tick(self, name: str, document: Document, now: int) -> tuple[int, int | None]:
        record = _decoder.decode(document.value)
        due = schedule.due(record, now)
        if due.ticks:
            ids = [self._clock.new_id() for _ in due.ticks]
            await self._enqueue(name, schedule.drafts_at(record, name, due.ticks, ids))
        if due.last_us != record.last_us or now - record.seen_us >= schedule.SEEN_EVERY:
            # Race: others did the same. Whoever comes second has nothing to do: the ticks were the same ones.
            await self._put(name, schedule.advanced(record, due, now), document.version)
        next_us = None if record.paused else record.timing.next(max(now, due.last_us), due.last_us)
        return len(due.ticks), next_us

    async def _enqueue(self, name: str, drafts: list[Draft]) -> None:
        if not isinstance(await self._insert(drafts), Refusal):
            return
        # Race: one of the ticks was enqueued before the schedule got other params. It is there; the rest may not be.
        for draft in drafts:
            if isinstance(await self._insert([draft]), Refusal):
                logger.warning("schedule %r: %s was enqueued with other params before", name, draft.idempotency_key)

    # What an operator does

    async def all(self) -> list[ScheduleInfo]:
        """List the schedules, by name."""
        now = await self._store.now()
        return [_info(document, now) for document in await self._store.documents(SCHEDULES)]

    async def switch(self, name: str, *, paused: bool, by: str | None) -> ScheduleInfo:
        """Pause a schedule, or resume it. Doing so twice is no error."""
        check_schedule_names([name])
        for _ in range(TRIES):
            document = await self._read(name)
            now = await self._store.now()
            record = schedule.switched(_decoder.decode(document.value), now, paused=paused, by=by)
            if await self._put(name, record, document.version):
                return schedule.info_of(name, record, now)
        raise _contended(name)

    async def run(self, name: str) -> Job:
        """Enqueue the job of a schedule now, beside its ticks."""
        check_schedule_names([name])
        record = _decoder.decode((await self._read(name)).value)
        answer = await self._insert([msgspec.structs.replace(record.draft, id=self._clock.new_id())])
        if isinstance(answer, Refusal):  # it has neither a known id nor a key
            raise StoreUnavailable(f"the job of schedule {name!r} could not be enqueued")
        return answer[0]

    # The store

    async def _read(self, name: str) -> Document:
        found = await self._store.read(SCHEDULES + name)
        if found is None:
            raise NotFound(f"there is no schedule {name!r}", hint="`dibs schedules list` shows those that are known.")
        return found

    async def _put(self, name: str, record: Record, expect: int) -> bool:
        value = msgspec.json.encode(record)
        return await self._store.put(SCHEDULES + name, value, expect=expect, keep_us=schedule.KEPT) is not None


def drafts_of_plans(plans: Sequence[Plan], config: Config, clock: Clock) -> list[Draft]:
    """Check schedules and their jobs, all at once; give what each tick enqueues."""
    if len(plans) > schedule.MOST_SCHEDULES:
        raise InvalidRequest([Problem("schedules", f"must be {schedule.MOST_SCHEDULES} at most")])
    drafts: list[Draft] = []
    problems: list[Problem] = []
    for place, plan in enumerate(plans):
        where = f"schedules[{place}]." if len(plans) > 1 else ""
        try:
            # With a key, as its ticks have: a job with one is kept longer.
            keyed = msgspec.structs.replace(plan.job, idempotency_key=schedule.key_of("", 0))
            [draft] = drafts_of([keyed], config, clock)
        except Invalid as error:
            problems += [Problem(where + each.field, each.message) for each in error.problems]
        else:
            if len(draft.params_json) > schedule.MAX_PARAMS:
                raise TooLarge(f"{where}params", len(draft.params_json), schedule.MAX_PARAMS)
            drafts.append(schedule.template(msgspec.structs.replace(draft, idempotency_key=None), plan.name))
        problems += [Problem(where + each.field, each.message) for each in schedule.check_plan(plan)]
    if problems:
        raise InvalidRequest(problems)
    return drafts


def check_schedule_names(names: Sequence[str]) -> None:
    """Check the names of schedules."""
    if problems := check_names("names", names):
        raise InvalidRequest(problems)


def _info(document: Document, now: int) -> ScheduleInfo:
    return schedule.info_of(document.name.removeprefix(SCHEDULES), _decoder.decode(document.value), now)


def _contended(name: str) -> StoreUnavailable:
    return StoreUnavailable(f"schedule {name!r} is changed by others all the time", hint="Try again.")
