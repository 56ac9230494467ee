"""Copy: all that one store has, to another that takes over from it. Killed at any moment, it can be begun again.

========  ============================================================================================================
source    hands out nothing from the start on: its queues are paused, with a mark, and stay so
target    hands out nothing until all is there and compared: its queues are paused meanwhile, with the same mark
identity  a random document of the source; the target keeps under it how far the copy has come
round     documents, then jobs that are missing or older there; again until both stores are found to be alike
========  ============================================================================================================

The reasons are in ADR 15.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from dibs.broker.comparing import Difference, Totals, differences, pages
from dibs.broker.maintenance import Maintenance
from dibs.broker.roster import WORKERS
from dibs.domain import transitions
from dibs.domain.errors import InvalidRequest, Problem, WrongState
from dibs.domain.job import Query, Status
from dibs.domain.retry import SECOND
from dibs.domain.settings import Config
from dibs.store import PAUSED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dibs.clock import Clock
    from dibs.domain.audit import Item
    from dibs.domain.job import Document, Event, Job
    from dibs.store import Store

COPIES = "copy/"
"""Documents of this prefix are of copies: who a source is, and in a target how far each copy has come."""

IDENTITY = COPIES + "id"
ACTOR = "dibs copy"

_PART_BYTES = 4 * 2**20  # of params and results that are put down at once
_ROUNDS = 5  # after which a source that still changes is not believed to be at rest
_LOOK = 0.2  # seconds between two looks at claims that are to end
_NEARLY = 60 * SECOND  # the ends of two documents that count as one

Tell: TypeAlias = Callable[[str, int], None]
"""To be told what is being done, and to how many more jobs."""


class Copied(msgspec.Struct, frozen=True):
    """What a copy has brought to its end."""

    jobs: int  # that both stores were found to have alike
    events: int  # in their logs
    documents: int  # that were brought this time
    resumed: bool  # an earlier copy was gone on with
    later: bool  # that one was whole, so only what has come to the source since then was looked at
    queues: tuple[str, ...]  # that the source hands out nothing of any more


class _Progress(msgspec.Struct, omit_defaults=True):
    """What the target keeps of a copy."""

    cursor: str | None = None  # where in the source to go on
    read: bool = False  # all of the source was gone through once
    whole: bool = False  # both were found to be alike: the target is on its own from then on
    upto_us: int = -1  # which jobs of the source are the target's own by now: those made until then


class Copy:
    """One copy, from its beginning or from where an earlier one has ended. Both stores are open."""

    def __init__(self, source: Store, target: Store, clock: Clock, tell: Tell = lambda *_: None) -> None:
        self._source, self._target, self._clock, self._tell = source, target, clock, tell
        self._id = ""
        self._mark = b""
        self._progress = _Progress()
        self._version = 0
        self._queues: set[str] = set()  # that the source hands out nothing of
        self._paused: set[str] = set()  # those of them that the target hands out nothing of, for now
        self._in_the_way: dict[str, str] = {}  # jobs that cannot be put down, and those that have their names
        self._documents = 0

    async def run(self, wait: float = 0.0) -> Copied:
        """Do it all; wait so many seconds for claims of the source to end."""
        await self._begin()
        resumed, later = self._version > 1, self._progress.whole
        await self._still(wait)
        if not self._progress.read:
            await self._copy_documents()
            await self._go_through()
        totals = await self._agree()
        # First this: should we be killed now, the target is not compared again, in which jobs may have moved on.
        self._progress.whole = True
        self._progress.upto_us = max(self._progress.upto_us, totals.newest_us)
        self._progress.cursor, self._progress.read = None, False
        await self._note()
        await self._resume_target()
        return Copied(totals.jobs, totals.events, self._documents, resumed, later, tuple(sorted(self._queues)))

    # Beginning

    async def _begin(self) -> None:
        """Learn who the source is, and how far its copy has come; refuse a target that is not fit for one."""
        found = await self._source.read(IDENTITY)
        if found is None:
            await self._source.put(IDENTITY, self._clock.random_bytes(16).hex().encode(), expect=0)
            found = await self._source.read(IDENTITY)
        assert found is not None  # noqa: S101 - no one removes it
        self._id = found.value.decode()
        self._mark = msgspec.json.encode({"by": ACTOR, "copy": self._id})
        theirs = await self._target.read(IDENTITY)
        if theirs is not None and theirs.value == found.value:
            what = "is the same store as FROM, or a copy of its file: there is nothing to copy"
            raise InvalidRequest([Problem("to", what)])
        await _refuse_half(self._source, "FROM", "")
        await _refuse_half(self._target, "TO", self._id)
        known = await self._target.read(COPIES + self._id)
        if known is None:
            await self._refuse_jobs()
        else:
            self._progress, self._version = msgspec.json.decode(known.value, type=_Progress), known.version
        await self._note()

    async def _refuse_jobs(self) -> None:
        jobs, _ = await self._target.find(Query(limit=1))
        if jobs:
            raise WrongState(
                f"TO has jobs of its own, such as {jobs[0].id}",
                hint="Copy to a store that has none; nothing was changed there.",
            )

    async def _note(self) -> None:
        """Keep how far it has come. Race: two who copy the same at once; the later one's version is another."""
        value = msgspec.json.encode(self._progress)
        document = await self._target.put(COPIES + self._id, value, expect=self._version)
        if document is None:
            raise WrongState("another `dibs copy` of the same stores is under way", hint="Let it end, or end it.")
        self._version = document.version

    # That no one works on either store

    async def _still(self, wait: float) -> None:
        """Let the source hand out nothing more, take away what no one holds any more, and see that no one holds any."""
        for info in await self._source.queues():
            if not info.paused:
                await self._pause(self._source, info.queue)
            self._queues.add(info.queue)
        maintenance = Maintenance(self._source, self._clock, Config.of())
        end = self._clock.monotonic() + wait
        while True:
            await maintenance.reap()
            held, more = await self._source.find(Query(status=(Status.CLAIMED,), limit=100))
            if not held:
                return
            if self._clock.monotonic() >= end:
                raise _held(held, more=more is not None)
            await self._clock.sleep(_LOOK)

    async def _pause(self, store: Store, queue: str) -> None:
        """Let a queue hand out nothing; one that a user has paused is left as it is."""
        await store.put(PAUSED + queue, self._mark, expect=0)

    async def _resume_target(self) -> None:
        for document in await self._target.documents(PAUSED):
            if _is_mark(document):
                await self._target.put(document.name, None, expect=document.version)

    # Documents

    async def _copy_documents(self) -> None:
        """Bring what is not there, or is different there. Those of a process or of a copy stay."""
        for document, keep_us in await self._stale():
            await self._target.put(document.name, document.value, keep_us=keep_us)
            self._documents += 1

    async def _stale(self) -> list[tuple[Document, int | None]]:
        """List the documents that are to be brought, and for how long they are to be kept."""
        if self._progress.whole:  # what the target has is its own by now
            return []
        there = {document.name: document for document in await self._target.documents("")}
        now = await self._target.now()
        found: list[tuple[Document, int | None]] = []
        for document in await self._source.documents(""):
            if document.name.startswith((COPIES, WORKERS)) or _is_mark(document):
                continue
            if not _same(document, there.get(document.name)):
                keep_us = None if document.expires_us is None else document.expires_us - now
                if keep_us is None or keep_us > 0:
                    found.append((document, keep_us))
        return found

    # Jobs

    def _is_wanted(self, job: Job) -> bool:
        return job.created_us > self._progress.upto_us

    def _wanted(self, items: Iterable[Item]) -> list[tuple[Job, list[Event]]]:
        return [(job, events) for job, events in items if job is not None and self._is_wanted(job)]

    async def _go_through(self) -> None:
        """Put down all that the source has, in order, and keep how far that has come. What is in the way is left."""
        async for items, cursor in pages(self._source, self._progress.cursor):
            await self._put_down(self._wanted(items))
            self._tell("copying", sum(job is not None for job, _ in items))
            self._progress.cursor, self._progress.read = cursor, cursor is None
            await self._note()

    async def _put_down(self, items: Sequence[tuple[Job, Sequence[Event]]]) -> None:
        if held := [job for job, _ in items if job.status is Status.CLAIMED]:
            raise _held(held)
        for queue in {job.queue for job, _ in items} - self._paused:
            await self._pause(self._target, queue)
            self._paused.add(queue)
        for part in _parts(items):
            for (job, _), holder in zip(part, await self._target.restore(part), strict=True):
                if holder is not None and holder.id != job.id:
                    self._in_the_way[job.id] = holder.id

    # Comparing

    async def _agree(self) -> Totals:
        """Compare both stores, and bring what is missing, until nothing is."""
        for _ in range(_ROUNDS):
            # Documents first: a schedule must not have noted a tick whose job was not there yet when jobs were read.
            await self._copy_documents()
            totals, difference = await self._compare()
            if not difference and not await self._stale():
                return totals
            if difference:
                self._in_the_way.clear()
                await self._mend(difference)
            await self._still(0.0)
        for id, holder in self._in_the_way.items():
            raise WrongState(
                f"the job {id!r} cannot be copied: the job {holder!r}, which TO alone has, has one of its keys",
                hint="Let that job end, or remove it; then run this again.",
            )
        raise WrongState(
            f"FROM has changed each of the {_ROUNDS} times that it was compared with TO",
            hint="Stop those who write to it, then run this again.",
        )

    async def _compare(self) -> tuple[Totals, Difference]:
        here, there = Totals(), Totals()
        async for items, _ in pages(self._target):
            for job, events in self._wanted(items):
                there.add(job, events)
            self._tell("comparing", sum(job is not None for job, _ in items))
        # The source last: what comes there until the end of it is seen.
        async for items, _ in pages(self._source):
            for job, events in self._wanted(items):
                here.add(job, events)
            await self._take_out_gone([events[-1] for job, events in items if job is None and events])
            self._tell("comparing", sum(job is not None for job, _ in items))
        buckets = here.unlike(there)
        if not buckets:
            return here, Difference(frozenset(), frozenset())
        return here, await differences(self._source, self._target, buckets, self._is_wanted)

    async def _mend(self, difference: Difference) -> None:
        async for items, _ in pages(self._source):
            wrong = [item for item in self._wanted(items) if item[0].id in difference.unlike]
            for job, events in wrong:
                await self._make_room(job, events)
            missing = [item for item in self._wanted(items) if item[0].id in difference.missing]
            if wrong or missing:
                await self._put_down(sorted([*wrong, *missing], key=lambda item: item[0].created_us))

    async def _make_room(self, job: Job, events: Sequence[Event]) -> None:
        """Take a job out of the target that is there as it was earlier; any other difference is told."""
        log = await self._target.log(job.id)
        if len(log) >= len(events) or log != list(events[: len(log)]):
            raise WrongState(
                f"the job {job.id!r} is in both stores, and is not the same",
                hint="See `dibs log` on each. Remove it from the one where it is wrong, or copy to an empty store.",
            )
        await self._take_out([job.id])

    async def _take_out_gone(self, ends: Sequence[Event]) -> None:
        """Take out what was brought, and is pruned in the source since then."""
        found = await self._target.get([end.job_id for end in ends]) if ends else []
        gone = [
            job.id
            for end, job in zip(ends, found, strict=True)
            if job is not None and self._is_wanted(job) and job.created_us < end.at_us and job.events < end.seq
        ]
        await self._take_out(gone)

    async def _take_out(self, ids: Sequence[str]) -> None:
        if ids:
            await self._target.write([transitions.cancel(id, ACTOR) for id in ids])
            await self._target.write([transitions.purge(id, ACTOR) for id in ids])


async def _refuse_half(store: Store, name: str, but: str) -> None:
    """Refuse a store that another copy was begun to, and has not ended."""
    for document in await store.documents(COPIES):
        if document.name not in {IDENTITY, COPIES + but}:
            progress = msgspec.json.decode(document.value, type=_Progress)
            if not progress.whole:
                raise WrongState(
                    f"another copy to {name} was begun, and is not whole", hint="Let that one end, with its own FROM."
                )


def _held(jobs: Sequence[Job], *, more: bool = False) -> WrongState:
    workers = sorted({job.worker_id or "" for job in jobs})
    some = ", ".join(workers[:3]) + (", …" if len(workers) > len(workers[:3]) else "")
    number = f"{len(jobs)}{' or more' if more else ''} {'job is' if len(jobs) == 1 and not more else 'jobs are'}"
    return WrongState(
        f"{number} claimed in FROM, such as {jobs[0].id}, by {some}: a claim cannot be copied",
        hint="FROM hands out nothing more. Let the workers end, then run this again, or add --wait 300.",
    )


def _is_mark(document: Document) -> bool:
    """Say whether a copy has paused this queue, and no user."""
    if not document.name.startswith(PAUSED):
        return False
    try:
        value = msgspec.json.decode(document.value)
    except msgspec.DecodeError:
        return False
    return isinstance(value, dict) and "copy" in value


def _same(document: Document, other: Document | None) -> bool:
    if other is None or document.value != other.value:
        return False
    if document.expires_us is None or other.expires_us is None:
        return document.expires_us is other.expires_us
    return abs(document.expires_us - other.expires_us) < _NEARLY


def _parts(items: Iterable[tuple[Job, Sequence[Event]]]) -> Iterable[list[tuple[Job, Sequence[Event]]]]:
    """Divide jobs so that no part is too large for one call."""
    part: list[tuple[Job, Sequence[Event]]] = []
    size = 0
    for job, events in items:
        weight = len(job.params_json) + len(job.result_json or b"")
        if part and size + weight > _PART_BYTES:
            yield part
            part, size = [], 0
        part.append((job, events))
        size += weight
    if part:
        yield part
