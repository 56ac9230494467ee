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
from dibs.broker.handover import ACTOR, Handover, held, is_mark
from dibs.broker.rates import RATES
from dibs.broker.roster import WORKERS
from dibs.domain import transitions
from dibs.domain.errors import InvalidRequest, Problem, WrongState
from dibs.domain.job import DAY, Query, Status
from dibs.domain.retry import SECOND, micros

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dibs.clock import Clock
    from dibs.domain.audit import Item
    from dibs.domain.job import Document, Event, Job
    from dibs.store import Store

COPIES = "copy/"
"""Documents of this prefix are of copies: who a source is, and in a target how far each copy has come."""

IDENTITY = COPIES + "id"

_PART_BYTES = 4 * 2**20  # of params and results that are put down at once
_ROUNDS = 5  # after which a source that still changes is not believed to be at rest
_NEARLY = 60 * SECOND  # the ends of two documents that count as one
_REMEMBERED = micros(DAY - 3600)  # for so long a store surely tells that a job was there, and is gone

Tell: TypeAlias = Callable[[str, int], None]
"""To be told what is being done, and to how many more jobs."""


class Copied(msgspec.Struct, frozen=True):
    """What a copy has brought to its end."""

    jobs: int  # that both stores were found to have alike
    events: int  # in their logs
    documents: int  # that were brought this time
    duplicates: int  # jobs that were left out, as the target had made one for their key already
    resumed: bool  # an earlier copy was gone on with
    later: bool  # that one was whole, so only what has come to the source since then was looked at
    queues: tuple[str, ...]  # that the source hands out nothing of any more


class _Progress(msgspec.Struct, omit_defaults=True):
    """What the target keeps of a copy."""

    cursor: str | None = None  # where in the source to go on
    read: bool = False  # all of the source was gone through once
    whole: bool = False  # both were found to be alike: the target is on its own from then on
    whole_us: int = 0  # since when, by the target's clock
    upto_us: int = -1  # which jobs of the source are the target's own by now: those made until then


class Copy:
    """One copy, from its beginning or from where an earlier one has ended. Both stores are open."""

    def __init__(self, source: Store, target: Store, clock: Clock, tell: Tell = lambda *_: None) -> None:
        self._source, self._target, self._clock, self._tell = source, target, clock, tell
        self._handover = Handover(source, target, clock, "")
        self._name = ""  # of the document that tells how far it has come
        self._progress = _Progress()
        self._version = 0
        self._documents = 0
        self._late: set[str] = set()  # jobs that were made before an earlier copy was whole, and came after it
        self._duplicates: set[str] = set()
        self._in_the_way: dict[str, str] = {}  # jobs that cannot be put down, and those that have their keys

    async def run(self, wait: float = 0.0) -> Copied:
        """Do it all; wait so many seconds for claims of the source to end."""
        await self._begin()
        resumed, later = self._version > 1, self._progress.whole
        await self._handover.still(wait)
        try:
            await self._find_late()
            if not self._progress.read:
                await self._copy_documents()
                await self._go_through()
            totals = await self._agree()
        except Exception:
            if later:
                await self._handover.begin()  # it was in use before, and is to go on
            raise
        # First this: should we be killed now, the target is not compared again, in which jobs may have moved on.
        upto_us = max(self._progress.upto_us, totals.newest_us)
        self._progress = _Progress(whole=True, whole_us=await self._target.now(), upto_us=upto_us)
        await self._note()
        await self._handover.begin()
        queues = tuple(sorted(self._handover.queues))
        return Copied(
            totals.jobs, totals.events, self._documents, len(self._duplicates), resumed, later, queues
        )  # fmt: skip

    # Beginning

    async def _begin(self) -> None:
        """Learn who the source is, and how far its copy has come; refuse a target that is not fit for one."""
        found = await self._source.read(IDENTITY)
        if found is None:
            await self._source.put(IDENTITY, self._clock.random_bytes(16).hex().encode(), expect=0)
            found = await self._source.read(IDENTITY)
        assert found is not None  # noqa: S101 - no one removes it
        theirs = await self._target.read(IDENTITY)
        if theirs is not None and theirs.value == found.value:
            what = "is the same store as FROM, or a copy of its file: there is nothing to copy"
            raise InvalidRequest([Problem("to", what)])
        id = found.value.decode()
        self._name = COPIES + id
        self._handover = Handover(self._source, self._target, self._clock, id)
        await _refuse_half(self._source, "FROM", IDENTITY)
        await _refuse_half(self._target, "TO", self._name)
        known = await self._target.read(self._name)
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
        document = await self._target.put(self._name, value, expect=self._version)
        if document is None:
            raise WrongState("another `dibs copy` of the same stores is under way", hint="Let it end, or end it.")
        self._version = document.version

    async def _find_late(self) -> None:
        """Find jobs that an earlier, whole copy has not seen: they were committed, or seen by their clock, late.

        Race: a job that the target has ended and pruned since must not come back. So it is no longer asked for once the
        target may have forgotten that it was there.
        """
        if not self._progress.whole or await self._target.now() - self._progress.whole_us > _REMEMBERED:
            return
        async for items, _ in pages(self._source):
            old = [
                job.id for job, _ in items if job is not None and not self._is_wanted(job) and job.completed_us is None
            ]
            there = await self._target.get(old) if old else []
            for id, job in zip(old, there, strict=True):
                if job is None and not await self._target.log(id):
                    self._late.add(id)

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
            if document.name.startswith((COPIES, RATES, WORKERS)) or is_mark(document):
                continue
            if not _same(document, there.get(document.name)):
                keep_us = None if document.expires_us is None else document.expires_us - now
                if keep_us is None or keep_us > 0:
                    found.append((document, keep_us))
        return found

    # Jobs

    def _is_wanted(self, job: Job) -> bool:
        return (job.created_us > self._progress.upto_us or job.id in self._late) and job.id not in self._duplicates

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
        if claimed := [job for job, _ in items if job.status is Status.CLAIMED]:
            raise held(claimed)
        await self._handover.hold_back(job.queue for job, _ in items)
        for part in _parts(items):
            for (job, _), holder in zip(part, await self._target.restore(part), strict=True):
                if holder is not None and holder.id != job.id:
                    await self._meet(job, holder)

    async def _meet(self, job: Job, holder: Job) -> None:
        """Deal with a job whose key another has in the target.

        Race: that one may have been brought from the source, where it has let go of the key since; then it is taken out
        or brought up to date, and the next round puts this one down. So it must be one that the source never had.
        """
        if _is_duplicate(job, holder) and not await self._source.log(holder.id):
            self._duplicates.add(job.id)
        else:
            self._in_the_way[job.id] = holder.id

    # Comparing

    async def _agree(self) -> Totals:
        """Compare both stores, and bring what is missing, until nothing is."""
        for _ in range(_ROUNDS):
            # Documents first: a schedule must not have noted a tick whose job was not there yet when jobs were read.
            await self._copy_documents()
            totals, difference = await self._compare()
            # Race: a queue that is new in the source, or was resumed there. What it has handed out is seen next time.
            still = await self._handover.still()
            if still and not difference and not await self._stale():
                return totals
            if difference:
                self._in_the_way.clear()
                await self._mend(difference)
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
            wanted = self._wanted(items)
            unlike = [item for item in wanted if item[0].id in difference.unlike]
            if claimed := [job for job, _ in unlike if job.status is Status.CLAIMED]:
                raise held(claimed)
            for job, events in unlike:
                await self._make_room(job, events)
            await self._put_down([item for item in wanted if item[0].id in difference.missing | difference.unlike])

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
        if document.name not in {IDENTITY, but} and not msgspec.json.decode(document.value, type=_Progress).whole:
            raise WrongState(
                f"another copy to {name} was begun, and is not whole", hint="Let that one end, with its own FROM."
            )


def _is_duplicate(job: Job, holder: Job) -> bool:
    """Say whether a job that never ran would have been answered with another, had it been enqueued beside it."""
    if job.fence or job.status is not Status.PENDING:
        return False
    if job.idempotency_key is not None and job.idempotency_key == holder.idempotency_key:
        return (job.task, job.queue, job.params_json) == (holder.task, holder.queue, holder.params_json)
    return True  # they share a unique key, whose holder is whoever has it


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
