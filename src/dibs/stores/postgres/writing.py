"""Write and extend: the domain judges each job as it is under its row's lock; what it says is put down at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.domain.job import Outcome, Status
from dibs.store import Written
from dibs.stores.common import rows
from dibs.stores.common.judging import Court, Entry
from dibs.stores.postgres.completing import complete
from dibs.stores.postgres.removing import remove
from dibs.stores.postgres.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.domain.job import Extension
    from dibs.domain.transitions import Write
    from dibs.stores.postgres.turn import Turn

_FIND = statement("write_find")
_KEYS = statement("write_keys")
_WRITE = statement("write_job")
_LOG = statement("write_log")
_CLOCK = statement("write_clock")
_EXTEND = statement("extend")

COMPLETED = Written(Outcome.APPLIED, Status.COMPLETED)


async def write(turn: Turn, writes: Sequence[Write], done: set[str]) -> list[Written]:
    """Apply each write that still holds. No job is named twice: the caller sees to that.

    ``done`` are those that were completed, and committed, by a try whose rest has failed: they are not asked for again.
    """
    done.update(await complete(turn, [write for write in writes if write.id not in done]))
    if len(done) == len(writes):
        return [COMPLETED] * len(writes)
    rest = iter(await _Writing(turn).write([write for write in writes if write.id not in done]))
    return [COMPLETED if write.id in done else next(rest) for write in writes]


class _Writing:
    """One transaction that judges."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._court = Court()

    async def write(self, writes: Sequence[Write]) -> list[Written]:
        async with self._turn.transaction():
            await self._read(writes)
            answers = [self._court.judge(write) for write in writes]
            await self._flush()
        self._turn.news |= self._court.news
        self._turn.returned += self._court.returned
        return answers

    async def _read(self, writes: Sequence[Write]) -> None:
        court = self._court
        found = await self._turn.fetch(_FIND, self._turn.told, [write.id for write in writes])
        for now, _, held, *row in found:
            court.now = now
            if held:
                court.held[row[2]] = Entry(row)
            else:
                court.elsewhere[row[2]] = Status(row[7])
        keys = court.contested(writes)
        if keys:
            found = await self._turn.fetch(_KEYS, self._turn.told, list(keys))
            court.now = max(court.now, found[0][0])
            court.keys = {key: id for _, key, id in found if key is not None}

    async def _flush(self) -> None:
        court = self._court
        if not court.changed and not court.gone:
            return
        if court.gone:
            await remove(self._turn, court.gone)
        for entries in court.in_order():
            await self._turn.fetch(_WRITE, *rows.columns([entry.columns for entry in entries], 13))
        if court.events:
            await self._turn.fetch(_LOG, *rows.columns(court.events, 13))
        await self._turn.fetch(_CLOCK, court.now)


async def extend(turn: Turn, extensions: Sequence[Extension]) -> list[Outcome]:
    """Lengthen each lease whose claim is current. No job is named twice: the caller sees to that."""
    found = await turn.fetch(
        _EXTEND,
        turn.told,
        [extension.ref.id for extension in extensions],
        [extension.ref.fence for extension in extensions],
        [extension.ref.token for extension in extensions],
        [extension.progress for extension in extensions],
        [extension.note for extension in extensions],
    )
    outcomes = [Outcome.LOST] * len(extensions)
    for place, outcome, _ in found:
        outcomes[place - 1] = Outcome(outcome)
    return outcomes
