"""A large group: its jobs are put where no one sees them, some at a time, and all are shown by one script.

So it is whole or not at all, as a small one is, and no script holds the server up. What is put in place is dear, and
what shows it is not. A group whose caller is gone is dropped, some at a time too, by whoever sweeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.domain.retry import SECOND
from dibs.stores.common.naming import Overtaken
from dibs.stores.redis import values
from dibs.stores.redis.scripts import script
from dibs.stores.redis.wording import INDEX, STEP, Words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dibs.domain.job import Draft
    from dibs.stores.redis.part import Part

_PUT = script("stage_put")
_SHOW = script("stage_show")
_LEFT = script("stage_left")
_DROP = script("stage_drop")

_BYTES = 2**20  # of params that one script is told of
_LEFT_SECONDS = 60  # after which a group's caller is believed to be gone
_DROP_STEP = 100


def is_small(drafts: Sequence[Draft]) -> bool:
    """Say whether one script can take all."""
    return len(drafts) <= STEP and sum(len(draft.params_json) for draft in drafts) <= _BYTES


async def insert(site: Part, drafts: Sequence[Draft]) -> int:
    """Insert new jobs; say when. ``Overtaken`` if a name was taken, or all of it took too long."""
    staged = _Staged(site, len(drafts))
    for some in _steps(drafts):
        await staged.put(some)

    async def run(hint: str) -> None:
        await staged.show(hint)

    try:
        await site.announce({(draft.queue, draft.task) for draft in drafts}, run)
    except Overtaken:
        await drop(site, staged.group)
        raise
    return int(staged.time)


def _steps(drafts: Sequence[Draft]) -> Iterator[Sequence[Draft]]:
    first = size = 0
    for at, draft in enumerate(drafts):
        size += len(draft.params_json)
        if at > first and (at - first == STEP or size > _BYTES):
            yield drafts[first:at]
            first, size = at, len(draft.params_json)
    yield drafts[first:]


class _Staged:
    """A group on its way."""

    def __init__(self, site: Part, number: int) -> None:
        self._site, self._number = site, number
        self.group = self.time = b""  # as soon as it is begun
        self._runs: list[Any] = []
        self._ids: list[str] = []
        self._names: list[Any] = []

    async def put(self, drafts: Sequence[Draft]) -> None:
        said, before = Words(drafts), len(self._ids)
        indexes = [word for name in said.names if name[1] == INDEX for word in name]
        words = (self.group, self.time, self._number, before, *said.runs, *said.jobs, *indexes)
        answer = await self._site.run(_PUT, self._site.told, *words)
        if not answer:
            raise Overtaken
        self.group, self.time = answer
        self._runs += said.runs[1:]
        self._ids += said.jobs[::2]
        for number, kind, name in said.names:
            if kind != INDEX:
                self._names += (before + number, kind, name)

    async def show(self, hint: str) -> None:
        words = (self._number, *self._ids, *self._places(), *self._names)
        if not await self._site.run(_SHOW, self._site.told, hint, self.group, *words):
            raise Overtaken

    def _places(self) -> Iterator[bytes]:
        """Write the jobs' places among the pending, as the script would: to do it here holds no one up."""
        seq, now = values.number(self.group[:8]), int(self.time)
        for lane, left, delay, earliest, number in zip(*[iter(self._runs)] * 5, strict=True):
            due = int(float(now) + delay)  # the bodies' due times are a script's, whose numbers are floats
            later = earliest and float(values.number(earliest)) > due
            before = lane + (earliest if later else values.long(due))
            for place in range(seq, seq + number):
                yield before + values.long(place) + left
            seq += number


async def sweep(site: Part) -> None:
    """Drop groups whose callers are gone."""
    while await drop(site, b""):
        pass


async def drop(site: Part, group: bytes) -> bool:
    """Drop a group that was not shown; without a name, one that was left. Say whether there was one."""
    found = False
    while answer := await site.run(_LEFT, site.told, group, _LEFT_SECONDS * SECOND, _DROP_STEP):
        found = True
        group, *rest = answer
        words: list[Any] = []
        for place, body in zip(rest[::2], rest[1::2], strict=True):
            job = values.job(body, b"")
            indexes = values.indexed(job.batch_id, job.tags)
            words += (place, job.id, len(indexes), *indexes)
        await site.run(_DROP, *words)
    return found
