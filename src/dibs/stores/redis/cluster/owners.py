"""Owners: which job an id or a key is reserved for, and where that is.

Shards cannot be changed together, so it takes two steps: a name is reserved in its own shard first, then the job is
made in its queue's. Either step may be the last. A reservation whose job is not there is taken over by the next who
wants the name, who first makes the pass void under which that job would still be made: a caller who stalled in between
finds that out where the job would be, and makes nothing. A key's reservation is not let go when its job ends: the next
who wants it sees that it has ended. Redriving takes the key anew, so that no one can take it over at that moment.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from dibs.domain.errors import StoreUnavailable
from dibs.domain.retry import SECOND
from dibs.stores.common.naming import Overtaken
from dibs.stores.redis import reading, values
from dibs.stores.redis.cluster.shards import of_name
from dibs.stores.redis.cluster.together import together
from dibs.stores.redis.part import Taken
from dibs.stores.redis.scripts import script

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from dibs.domain.job import Job
    from dibs.stores.redis.part import Part, Pass

_RESERVE = script("owner_reserve")
_SWAP = script("owner_swap")
_READ = script("owner_read")
_ENTER = script("pass_enter")
_VOID = script("pass_void")

_STEP = 500  # names that one script looks at
_GRACE = SECOND // 2  # for so long whoever has reserved a name is believed to be about to make its job

_PATIENCE = 10.0  # seconds
_PAUSE = 0.02

# when, by the clock of the name's shard; the job's shard; 'i' for an insert or 'r' for a redrive; pass and its number
_OWNER = Struct(">QBc8sQ")


class Owner(NamedTuple):
    """Whom a name is reserved for."""

    raw: bytes
    at: int
    shard: int
    by: bytes
    pass_: Pass
    id: str

    @classmethod
    def read(cls, raw: bytes) -> Owner:
        at, shard, by, pass_, number = _OWNER.unpack_from(raw)
        return cls(raw, at, shard, by, (pass_, number), raw[_OWNER.size :].decode())


def _reservation(shard: int, by: bytes, shown: Pass, id: str) -> bytes:
    """Write one, but for the time."""
    return _OWNER.pack(0, shard, by, *shown)[8:] + id.encode()


def by_id(id: str) -> bytes:
    """Name an id."""
    return b"i" + id.encode()


def by_key(key: str) -> bytes:
    """Name an idempotency key."""
    return b"k" + key.encode()


def by_unique(key: str) -> bytes:
    """Name a unique key."""
    return b"u" + key.encode()


def names_of(id: str, key: str | None, unique: str | None) -> list[bytes]:
    """Name all that a job is known by."""
    return [
        by_id(id),
        *([by_key(key)] if key is not None else []),
        *([by_unique(unique)] if unique is not None else []),
    ]


class Met(NamedTuple):
    """A name that someone has, and the job, if it is there and has it."""

    name: bytes
    owner: Owner
    job: Job | None
    made: bool  # what it was reserved for was done: the job is there, or was taken up again
    waits: bool  # for whoever has reserved it to do so, or to give up


class Owners:
    """The reservations, as one event loop reaches them."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._entered: set[int] = set()
        self._renew()

    # Passes

    def _renew(self) -> None:
        self._pass, self._number = os.urandom(8), 0
        self._entered.clear()

    def new_pass(self) -> Pass:
        """Give a pass that was not used yet."""
        self._number += 1
        return self._pass, self._number

    async def enter(self, shown: Pass, shards: Iterable[int]) -> None:
        """See to it that a pass is valid in some shards, before anything is reserved under it."""
        new = [shard for shard in set(shards) if shard not in self._entered]
        if not new:
            return
        await together(self._parts[shard].run(_ENTER, self._parts[shard].told, shown[0]) for shard in new)
        if shown[0] == self._pass:
            self._entered.update(new)

    def forget(self, shown: Pass) -> None:
        """Use another pass from now on: this one was void, or a shard has lost it."""
        if shown[0] == self._pass:
            self._renew()

    # Names

    async def read(self, names: Sequence[bytes]) -> list[Owner | None]:
        """Say who has names."""
        answers = await self._each(names, lambda part, some: part.run(_READ, *some))
        return [Owner.read(raw) if raw else None for raw in answers]

    async def reserve(self, wanted: dict[bytes, tuple[int, str]], shown: Pass, by: bytes = b"i") -> list[Met]:
        """Reserve names for jobs (their shard and id); give those that someone has."""
        names = list(wanted)
        answers = await self._each(names, lambda part, some: self._reserve(part, some, wanted, shown, by))
        met = [(name, Owner.read(raw), now) for name, (raw, now) in zip(names, answers, strict=True) if raw]
        return await self._look(met)

    async def _reserve(
        self, part: Part, names: Sequence[bytes], wanted: dict[bytes, tuple[int, str]], shown: Pass, by: bytes
    ) -> list[tuple[bytes, int]]:
        words = [word for name in names for word in (name, _reservation(wanted[name][0], by, shown, wanted[name][1]))]
        at, *found = await part.run(_RESERVE, *words)
        return [(raw, values.number(at)) for raw in found]

    async def _look(self, met: list[tuple[bytes, Owner, int]]) -> list[Met]:
        """See what has become of the jobs that names are reserved for."""
        by_shard: dict[int, list[str]] = {}
        for _, owner, _ in met:
            by_shard.setdefault(owner.shard, []).append(owner.id)
        read = await together(reading.get(self._parts[shard], ids) for shard, ids in by_shard.items())
        jobs = {job.id: job for several in read for job in several if job is not None}
        found: list[Met] = []
        for name, owner, now in met:
            job = jobs.get(owner.id)
            held = job is not None and (name[:1] != b"u" or (job.unique_key == name[1:].decode() and _unfinished(job)))
            made = held or (job is not None and owner.by == b"i")
            found.append(Met(name, owner, job if held else None, made, not made and now - owner.at < _GRACE))
        return found

    async def take_over(self, met: Sequence[Met], wanted: dict[bytes, tuple[int, str]], shown: Pass, by: bytes) -> None:
        """Take names whose jobs are not there; ``Overtaken`` if they are by now or soon, or others were faster."""
        if any(one.waits for one in met):
            raise Overtaken
        voided: dict[int, list[Any]] = {}
        for name, owner, _, made, _ in met:
            if not made:
                kind = b"u" if name[:1] == b"u" else b""
                voided.setdefault(owner.shard, []).extend((owner.id, *owner.pass_, kind))
        answers = await together(self._parts[shard].run(_VOID, *words) for shard, words in voided.items())
        if not all(done for answer in answers for done in answer):
            raise Overtaken
        swaps = {
            one.name: (one.owner.raw, _reservation(wanted[one.name][0], by, shown, wanted[one.name][1])) for one in met
        }
        if not all(await self._swap(swaps)):
            raise Overtaken

    async def take_keys(self, shard: int, jobs: Sequence[Job]) -> Taken:
        """Take the unique keys of finished jobs that are about to begin again; say whose are others'."""
        shown = self.new_pass()
        await self.enter(shown, [shard])
        refused: dict[str, str] = {}
        first: dict[str, str] = {}
        for job in jobs:
            key = job.unique_key or ""
            holder = first.get(key) or await self._take_key(shard, job.id, by_unique(key), shown)
            if holder is None:
                first[key] = job.id
            else:
                refused[job.id] = holder

        async def give_back(left: Sequence[Job]) -> None:
            self.forget(shown)  # it may be the pass that was not valid any more
            await self.let_go([by_unique(job.unique_key or "") for job in left if job.id not in refused], shown)

        return Taken(shown, refused, give_back)

    async def _take_key(self, shard: int, id: str, name: bytes, shown: Pass) -> str | None:
        """Take one, unless an unfinished job has it; then say which."""
        wanted = {name: (shard, id)}
        end = time.monotonic() + _PATIENCE
        while True:
            met = await self.reserve(wanted, shown, b"r")
            if not met:
                return None
            [one] = met
            if one.job is not None:
                return one.job.id
            with suppress(Overtaken):
                await self.take_over(met, wanted, shown, b"r")
                return None
            if time.monotonic() > end:
                raise StoreUnavailable(f"others were faster to take the unique key {name[1:].decode()!r}, all the time")
            await asyncio.sleep(_PAUSE)

    async def let_go(self, names: Iterable[bytes], shown: Pass) -> None:
        """Give back what was reserved under a pass, and is not needed."""
        several = list(names)
        if not several:
            return
        owners = await self.read(several)
        mine = {
            name: (owner.raw, b"")
            for name, owner in zip(several, owners, strict=True)
            if owner is not None and owner.pass_ == shown
        }
        await self._swap(mine)

    async def correct(self, right: dict[bytes, tuple[int, str]], shown: Pass) -> None:
        """Let names that were reserved under a pass be those of other jobs (their shard and id)."""
        owners = await self.read(list(right))
        await self._swap(
            {
                name: (owner.raw, _reservation(shard, b"i", shown, id))
                for (name, (shard, id)), owner in zip(right.items(), owners, strict=True)
                if owner is not None and owner.pass_ == shown
            }
        )

    async def drop(self, owned: dict[bytes, Owner]) -> None:
        """Forget names of jobs that are gone, unless others have taken them since."""
        await self._swap({name: (owner.raw, b"") for name, owner in owned.items()})

    async def _swap(self, swaps: dict[bytes, tuple[bytes, bytes]]) -> list[int]:
        return await self._each(
            list(swaps),
            lambda part, some: part.run(_SWAP, *(word for name in some for word in (name, *swaps[name]))),
        )

    async def _each(
        self, names: Sequence[bytes], ask: Callable[[Part, list[bytes]], Awaitable[Sequence[Any]]]
    ) -> list[Any]:
        """Ask each name's shard, some names at a time; give the answers in the order of the names."""
        by_shard: dict[int, list[int]] = {}
        for place, name in enumerate(names):
            by_shard.setdefault(of_name(name), []).append(place)
        answers: dict[int, Any] = {}

        async def one(shard: int, places: list[int]) -> None:
            for at in range(0, len(places), _STEP):
                some = places[at : at + _STEP]
                found = await ask(self._parts[shard], [names[place] for place in some])
                answers.update(zip(some, found, strict=True))

        await together(one(shard, places) for shard, places in by_shard.items())
        return [answers[place] for place in range(len(names))]


def _unfinished(job: Job) -> bool:
    return not job.status.finished
