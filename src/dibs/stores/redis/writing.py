"""Write and extend: the domain judges each job as it was read, and a script puts that down if the job is still so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.domain.job import FINISHED, Outcome, Status
from dibs.domain.transitions import Write
from dibs.store import Written
from dibs.stores.common.judging import Court, Entry, Gone
from dibs.stores.redis import reading, values
from dibs.stores.redis.part import NO_PASS, Taken
from dibs.stores.redis.scripts import script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.domain.job import Event, Extension, Job
    from dibs.stores.redis.part import Part

_COMPLETE = script("complete")
_WRITE = script("write")
_EXTEND = script("extend")

_STEP = 250  # jobs that one script completes or extends
_WRITE_STEP = 100  # jobs that one script writes
_COMPLETED = Written(Outcome.APPLIED, Status.COMPLETED)
_BUSY, _CONFLICT = 0, 2  # a script's answers


class Held(Entry):
    """A job that a write speaks of, as it was read, and what is to become of it."""

    __slots__ = ("before", "event", "gone", "place", "raw")

    def __init__(self, seq: bytes, body: bytes, state: bytes) -> None:
        self.event: Event | None = None
        self.gone: Gone | None = None
        self.place, self.raw = seq, state
        self.before = self.job = values.job(body, state)
        self.seq, self.lane = values.number(seq), 0
        self.expires = values.expires(state) or None if state else None


async def write(site: Part, writes: Sequence[Write]) -> list[Written]:
    """Apply each write that still holds. No job is named twice: the caller sees to that."""
    done = await _complete(site, writes)
    rest = [write for write in writes if write.id not in done]
    answers = [
        answer for at in range(0, len(rest), _WRITE_STEP) for answer in await _judge(site, rest[at : at + _WRITE_STEP])
    ]
    others = iter(answers)
    return [_COMPLETED if write.id in done else next(others) for write in writes]


async def _complete(site: Part, writes: Sequence[Write]) -> set[str]:
    """Complete what is held as it is said to be, which is nearly always so; say what was."""
    several = [(write, write.ref) for write in writes if write.ref is not None and write.to is Status.COMPLETED]
    done: set[str] = set()
    for at in range(0, len(several), _STEP):
        some = several[at : at + _STEP]
        words: list[Any] = [site.told]
        for write, ref in some:
            words += (ref.id, ref.fence, _token(ref.token), write.result_json or b"")
        answers = await site.run(_COMPLETE, *words)
        done.update(write.id for (write, _), answer in zip(some, answers, strict=True) if answer)
    return done


def _token(token: str) -> bytes:
    return token.encode("utf-8", "surrogatepass")


async def _judge(site: Part, writes: Sequence[Write]) -> list[Written]:
    court = Court()
    court.now, found = await reading.by_id(site, [write.id for write in writes])
    held = {write.id: Held(*one) for write, one in zip(writes, found, strict=True) if one[0]}
    court.held.update(held)
    answers: list[Written] = []
    for write in writes:
        answers.append(court.judge(write))
        court.keys.clear()  # the script looks at unique keys, where no one can be faster
    for entry, event in zip(court.changed, court.logged, strict=True):
        held[entry.job.id].event = event
    for each in court.gone:
        held[each.job.id].gone = each
    decided = [
        (at, held[write.id]) for at, write in enumerate(writes) if answers[at].outcome is Outcome.APPLIED
    ]  # in the order of the writes: a key that one lets go is free for those after it
    if decided:
        await _put_down(site, court, decided, answers)
    return answers


async def _put_down(site: Part, court: Court, decided: list[tuple[int, Held]], answers: list[Written]) -> None:
    begun = [entry.job for _, entry in decided if not entry.gone and _key_is(entry.before, entry.job) == b"t"]
    taken = await site.take_keys(begun) if begun else Taken()
    decided = _unless_refused(taken, decided, answers)
    if not decided:
        return
    leaving = [entry.job for _, entry in decided if entry.gone]
    leave = await site.leave(leaving) if leaving else None
    words = [*taken.shown, *(word for _, entry in decided for word in _words(entry))]

    async def run(hint: str) -> list[int]:
        written: list[int] = await site.run(_WRITE, b"%d" % court.now, hint, *words)
        return written

    written = await site.announce(court.news, run) if court.news else await run("")
    for (at, entry), outcome in zip(decided, written, strict=True):
        if outcome == _BUSY:
            answers[at] = Written(Outcome.BUSY, entry.before.status)
        elif outcome == _CONFLICT:
            answers[at] = Written(Outcome.CONFLICT, entry.before.status)
    done = {
        entry.job.id for (_, entry), outcome in zip(decided, written, strict=True) if outcome not in {_BUSY, _CONFLICT}
    }
    if leave is not None:
        await leave([job for job in leaving if job.id in done])
    left = [job for job in begun if job.id not in done]
    if left and taken.give_back is not None:
        await taken.give_back(left)


def _unless_refused(taken: Taken, decided: list[tuple[int, Held]], answers: list[Written]) -> list[tuple[int, Held]]:
    """Leave out jobs whose unique keys others have: for good, or until the one that has it has ended with these."""
    ending = {entry.job.id for _, entry in decided if entry.gone or entry.job.status in FINISHED}
    left: list[tuple[int, Held]] = []
    for at, entry in decided:
        holder = taken.refused.get(entry.job.id)
        if holder is None:
            left.append((at, entry))
        else:
            answers[at] = Written(Outcome.BUSY if holder in ending else Outcome.CONFLICT, entry.before.status)
    return left


def _words(entry: Held) -> tuple[Any, ...]:
    """Say what ``write`` is to do with one job: where it was, where it is to be, and what is logged."""
    before, after, seq, gone = entry.before, entry.job, entry.place, entry.gone
    was, now = before.status, None if gone else after.status
    return (
        seq,
        entry.raw,
        b"" if gone else values.state(after, entry.expires),
        values.pending(before, seq) if was is Status.PENDING else b"",
        values.pending(after, seq) if now is Status.PENDING else b"",
        before.queue if was is Status.CLAIMED else b"",
        values.done(before, seq, values.expires(entry.raw)) if was in FINISHED else b"",
        values.done(after, seq, entry.expires or 0) if now in FINISHED else b"",
        before.unique_key or b"",
        _key_is(before, after),
        after.events.to_bytes(4, "big"),
        values.grave(gone.event) if gone else values.event(entry.event) if entry.event else b"",
        *(_leaving(before) if gone else (b"", b"", 0, b"")),
    )


def _key_is(before: Job, after: Job) -> bytes:
    """Say whether a unique key is let go, taken, or neither."""
    if before.unique_key is None or before.status.finished == after.status.finished:
        return b""
    return b"l" if after.status.finished else b"t"


def _leaving(job: Job) -> tuple[Any, ...]:
    places = b"".join(len(prefix).to_bytes(2, "big") + prefix for prefix in values.indexed(job.batch_id, job.tags))
    return job.id, job.idempotency_key or b"", job.events, places


async def remove(site: Part, now: int, found: Sequence[reading.Found], events: Sequence[Event]) -> int:
    """Remove finished jobs whose time is over, those that are as they were read; say how many."""
    words: list[Any] = [b"%d" % now, b"", *NO_PASS]
    jobs: list[Job] = []
    for one, event in zip(found, events, strict=True):
        entry = Held(*one)
        entry.gone = Gone(entry.seq, entry.job, event)
        jobs.append(entry.job)
        words += _words(entry)
    leave = await site.leave(jobs)
    gone = [job for job, done in zip(jobs, await site.run(_WRITE, *words), strict=True) if done]
    if leave is not None:
        await leave(gone)
    return len(gone)


async def extend(site: Part, extensions: Sequence[Extension]) -> list[Outcome]:
    """Lengthen each lease whose claim is current. No job is named twice: the caller sees to that."""
    outcomes: list[Outcome] = []
    for at in range(0, len(extensions), _STEP):
        words: list[Any] = [site.told]
        for extension in extensions[at : at + _STEP]:
            ref = extension.ref
            words += (ref.id, ref.fence, _token(ref.token), values.float_(extension.progress), extension.note)
        outcomes += [Outcome.APPLIED if answer else Outcome.LOST for answer in await site.run(_EXTEND, *words)]
    return outcomes
