"""Write and extend: the domain judges each job as it is under its row's lock; what it says is put down at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.domain import transitions
from dibs.domain.job import EventName, Outcome, Status
from dibs.store import Written
from dibs.stores.common.judging import Court, Entry
from dibs.stores.mysql import rows
from dibs.stores.mysql.completing import complete
from dibs.stores.mysql.literals import Json, chunks, step
from dibs.stores.mysql.removing import remove
from dibs.stores.mysql.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.domain.job import Extension
    from dibs.domain.transitions import Write
    from dibs.stores.common.rows import Row
    from dibs.stores.mysql.literals import Step
    from dibs.stores.mysql.turn import Turn

_NOW = statement("clock_read")
_LOCK = statement("write_lock")
_READ = statement("job_by_id")
_ELSEWHERE = statement("write_elsewhere")
_LANES = statement("lane_names")
_KEYS = statement("write_keys")
_WRITE = statement("write_job")
_LOG = statement("write_log")
_EXTEND_LOCK = statement("extend_lock")
_EXTEND = statement("extend")
_PROGRESS = statement("extend_progress")
_HELD = statement("extend_held")

COMPLETED = Written(Outcome.APPLIED, Status.COMPLETED)


async def write(turn: Turn, writes: Sequence[Write], done: set[str]) -> list[Written]:
    """Apply each write that still holds. No job is named twice: the caller sees to that.

    ``done`` are those that were completed, and committed, by a try whose rest has failed: they are not asked for again.
    """
    done.update(await complete(turn, [write for write in writes if write.id not in done]))
    if len(done) == len(writes):
        return [COMPLETED] * len(writes)
    rest = iter(await _judge(turn, [write for write in writes if write.id not in done]))
    return [COMPLETED if write.id in done else next(rest) for write in writes]


async def _judge(turn: Turn, writes: Sequence[Write]) -> list[Written]:
    """Judge without a lock first: what was lost, or done before, stays so, and needs none. The rest is locked."""
    seen: dict[str, Row] = {}
    answers: dict[str, Written] = {}
    if turn.sees_the_present:
        [(now,)], found = await turn.run(
            step(_NOW, turn.told), step(_READ, tuple(write.id.encode() for write in writes))
        )
        seen = {row[2].decode(): row for row in found}
        for write in writes:
            answer = _verdict(write, seen.get(write.id), now)
            if answer.outcome is not Outcome.APPLIED:
                answers[write.id] = answer
    rest = [write for write in writes if write.id not in answers]
    if rest:
        async with turn.transaction():
            locked = await _lock(turn, rest, seen)
            court = locked.court(locked.now)
            answers |= {write.id: court.judge(write) for write in rest}
            if locked.keys and court.changed and turn.sees_the_present:
                # Race: a job with the key that came and ended since the time was told. Once the key is ours it is told
                # again, and judged by (test_a_redrive_is_later_than_a_life_that_no_one_saw).
                *_, [(now,)] = await turn.run(*_rows(court), step(_NOW, turn.told))
                court = locked.court(max(now, court.now))
                answers |= {write.id: court.judge(write) for write in rest}
            if court.changed or court.gone:
                await turn.commit(*_flush(court), now=court.now)
        turn.news |= court.news
        turn.returned += court.returned
    return [answers[write.id] for write in writes]


def _verdict(write: Write, row: Row | None, now: int) -> Written:
    if row is None:
        return Written(Outcome.MISSING, None)
    job = rows.job(row)
    return Written(transitions.judge(job, write, max(now, job.updated_us)), job.status)


class _Locked:
    """Jobs that are locked, as they are, which of them another transaction holds, and who has unique keys."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.rows: list[Row] = []
        self.elsewhere: dict[str, Status] = {}
        self.keys: set[str] = set()
        self.holders: dict[str, str] = {}

    def court(self, now: int) -> Court:
        """Let them be judged."""
        court = Court()
        court.now, court.elsewhere, court.keys = now, self.elsewhere, dict(self.holders)
        entries = [Entry(rows.whole(row)) for row in self.rows]
        court.held = {entry.job.id: entry for entry in entries}
        return court


async def _lock(turn: Turn, writes: Sequence[Write], seen: dict[str, Row]) -> _Locked:
    """Lock jobs, and read what they are now, and which of them another transaction holds."""
    [(now,)], locked = await turn.run(step(_NOW, turn.told), step(_LOCK, Json([write.id for write in writes])))
    found = _Locked(now)
    names = {row[1]: (row[3], row[4], row[6]) for row in seen.values()}
    found.elsewhere = {id: Status(row[7]) for id, row in seen.items()}
    if not seen:  # a user's transaction
        ids = {row[2].decode() for row in locked}
        lanes, elsewhere = await turn.run(
            step(_LANES, Json(sorted({row[1] for row in locked}))),
            step(_ELSEWHERE, Json([write.id for write in writes if write.id not in ids])),
        )
        names = {id: (queue, task, priority) for id, queue, task, priority in lanes}
        found.elsewhere = {id.decode(): Status(status) for id, status in elsewhere}
    found.rows = [_in_lane(row, names[row[1]]) for row in locked]
    if any(write.event is EventName.REDRIVEN for write in writes):
        found.keys = found.court(now).contested(writes)
    if found.keys:
        # Race: a key that became free since the rows were locked. What begins now is later than what ended then
        # (test_a_redrive_is_later_than_the_end_that_set_its_key_free).
        keys = tuple(key.encode() for key in found.keys)
        holders, [(now,)] = await turn.run(step(_KEYS, keys), step(_NOW, turn.told))
        found.now = max(found.now, now)
        found.holders = {key.decode(): id.decode() for key, id in holders}
    return found


def _in_lane(row: Row, lane: tuple[bytes, bytes, int]) -> Row:
    queue, task, priority = lane
    return (*row[:3], queue, task, row[5], priority, *row[7:])


def _rows(court: Court) -> list[Step]:
    steps: list[Step] = []
    for entries in court.in_order():
        for entry in entries:
            seq, *columns = entry.columns
            steps.append(step(_WRITE, *columns, seq))
    return steps


def _flush(court: Court) -> list[Step]:
    steps = remove(court.gone) if court.gone else []
    return [*steps, *_rows(court), *(step(_LOG, some) for some in chunks(court.events))]


async def extend(turn: Turn, extensions: Sequence[Extension]) -> list[Outcome]:
    """Lengthen each lease whose claim is current. No job is named twice: the caller sees to that."""
    outcomes = [Outcome.LOST] * len(extensions)
    asked = [(extension.ref.id, extension.ref.fence, extension.ref.token) for extension in extensions]
    async with turn.transaction():
        [(now,)], locked = await turn.run(step(_NOW, turn.told), step(_EXTEND_LOCK, Json(asked)))
        if locked:
            told = [(extensions[place - 1], seq) for place, seq in locked]
            await turn.commit(
                step(_EXTEND, now, now, tuple(seq for _, seq in told)),
                *(
                    step(_PROGRESS, extension.progress, extension.note, seq)
                    for extension, seq in told
                    if extension.progress is not None
                ),
                now=now,
            )
    for place, _ in locked:
        outcomes[place - 1] = Outcome.APPLIED
    if len(locked) < len(extensions):
        for (place,) in await turn.fetch(_HELD, Json(asked)):
            if outcomes[place - 1] is Outcome.LOST:
                outcomes[place - 1] = Outcome.BUSY
    return outcomes
