"""Insert on a cluster: names are reserved first, each in its own shard, and jobs are made then, each in its queue's.

A group that is refused was refused before any of its jobs was made. A crash in between may leave a part of one; the
same ids sent again complete it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from dibs.stores.common.naming import Identified, Named, Overtaken
from dibs.stores.redis import inserting, reading
from dibs.stores.redis.cluster.owners import names_of
from dibs.stores.redis.cluster.together import together
from dibs.stores.redis.wording import STEP

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dibs.domain.job import Draft, Job
    from dibs.store import Refusal
    from dibs.stores.redis.cluster.owners import Met, Owners
    from dibs.stores.redis.cluster.shards import Spread
    from dibs.stores.redis.part import Part, Pass

_KINDS = {b"i": "id", b"k": "key", b"u": "unique"}


class Insertion:
    """One call: what of it was made stays made if it has to be tried again."""

    def __init__(self, parts: Sequence[Part], owners: Owners, spread: Spread) -> None:
        self._parts, self._owners, self._spread = parts, owners, spread
        self._made: dict[str, tuple[Draft, Job]] = {}
        self._told: set[str] = set()  # which of them were answered as new

    async def plain(self, groups: Sequence[Sequence[Draft]]) -> list[list[Job] | Refusal]:
        """Insert groups together if every draft is new; ``Overtaken`` if one of them is not."""
        drafts = [draft for group in groups for draft in group]
        shown = self._owners.new_pass()
        wanted = self._wanted(drafts)
        met = await self._reserve(drafts, wanted, shown)
        if met:
            await self._owners.let_go(wanted.keys() - {one.name for one in met}, shown)
            raise Overtaken
        await self._make(drafts, shown)
        return [[self._made[draft.id][1] for draft in group] for group in groups]

    async def group(self, group: Sequence[Draft]) -> list[Job] | Refusal:
        """Insert one group, or say why not; ``Overtaken`` if it is to be tried again."""
        shown = self._owners.new_pass()
        drafts = [draft for draft in group if not self._is_made(draft)]
        wanted = self._wanted(drafts)
        met = await self._reserve(drafts, wanted, shown)
        free = [one for one in met if one.job is None]
        try:
            if free:
                await self._owners.take_over(free, wanted, shown, b"i")
        except Overtaken:
            await self._owners.let_go(wanted, shown)
            raise
        found = [(_KINDS[one.name[:1]], one.job) for one in met if one.job is not None]
        return await self._decide(group, Named([*found, *_known(job for _, job in self._made.values())]), wanted, shown)

    async def _decide(
        self, group: Sequence[Draft], named: Named, wanted: dict[bytes, tuple[int, str]], shown: Pass
    ) -> list[Job] | Refusal:
        found = Identified(group, named)
        if found.mismatch is not None:
            await self._owners.let_go(wanted, shown)
            return found.refusal(await reading.now(self._parts[0]))
        self._tell_own(group, found)
        drafts = list(found.new.values())
        needed = self._wanted(drafts)
        await self._owners.let_go(wanted.keys() - needed.keys(), shown)
        # A name may have been reserved for an earlier draft of the group, which turned out to be a duplicate.
        if others := {name: where for name, where in needed.items() if wanted[name] != where}:
            await self._owners.correct(others, shown)
        await self._make(drafts, shown)
        self._told.update(job.id for job, duplicate in found.found if not duplicate)
        return [
            replace(self._made[job.id][1] if job.id in found.new else job, was_duplicate=duplicate)
            for job, duplicate in found.found
        ]

    def _tell_own(self, group: Sequence[Draft], found: Identified) -> None:
        """Call no duplicate what an earlier try of this very call has made."""
        mine: set[str] = set()
        for at, draft in enumerate(group):
            job, duplicate = found.found[at]
            if duplicate and job.id == draft.id and draft.id not in mine and self._is_made(draft):
                found.found[at] = (job, False)
            mine.add(draft.id)

    def _is_made(self, draft: Draft) -> bool:
        """Say whether a job was made of this very draft, and that was not answered yet: then it is no duplicate."""
        made = self._made.get(draft.id)
        return made is not None and made[0] is draft and draft.id not in self._told

    def _wanted(self, drafts: Sequence[Draft]) -> dict[bytes, tuple[int, str]]:
        """Say which names are wanted, and for which job in which shard; of two with one name the first is meant."""
        wanted: dict[bytes, tuple[int, str]] = {}
        for draft in drafts:
            where = self._spread.shard(draft.queue, draft.id), draft.id
            for name in _names(draft):
                wanted.setdefault(name, where)
        return wanted

    async def _reserve(self, drafts: Sequence[Draft], wanted: dict[bytes, tuple[int, str]], shown: Pass) -> list[Met]:
        await self._owners.enter(shown, {self._spread.shard(draft.queue, draft.id) for draft in drafts})
        return await self._owners.reserve(wanted, shown)

    async def _make(self, drafts: Sequence[Draft], shown: Pass) -> None:
        by_shard: dict[int, list[Draft]] = {}
        for draft in drafts:
            by_shard.setdefault(self._spread.shard(draft.queue, draft.id), []).append(draft)
        await together(self._make_in(shard, some, shown) for shard, some in by_shard.items())

    async def _make_in(self, shard: int, drafts: list[Draft], shown: Pass) -> None:
        part = self._parts[shard]
        for at in range(0, len(drafts), STEP):
            some = drafts[at : at + STEP]
            try:
                now = await inserting.insert(part, some, shown)
            except inserting.PassVoid:
                self._owners.forget(shown)
                await self._owners.let_go(_all_names(drafts[at:]), shown)
                raise
            except Overtaken:
                known = await self._correct(shard, some, shown)
                await self._owners.let_go(_all_names(drafts[at:]) - known, shown)
                raise
            self._made.update((draft.id, (draft, draft.job(now))) for draft in some)

    async def _correct(self, shard: int, drafts: Sequence[Draft], shown: Pass) -> set[bytes]:
        """Put right what a failover has lost: jobs are here that have these names, though no one had reserved them."""
        letters = {kind: letter for letter, kind in _KINDS.items()}
        holders = await inserting.holders_of(self._parts[shard], drafts)
        right = {letters[kind] + name.encode(): (shard, job.id) for kind, name, job in holders}
        await self._owners.correct(right, shown)
        return set(right)


def _names(draft: Draft) -> list[bytes]:
    return names_of(draft.id, draft.idempotency_key, draft.unique_key)


def _all_names(drafts: Sequence[Draft]) -> set[bytes]:
    return {name for draft in drafts for name in _names(draft)}


def _known(jobs: Iterable[Job]) -> list[tuple[str, Job]]:
    """Say by which names jobs are known."""
    return [
        (kind, job)
        for job in jobs
        for kind, name in (("id", job.id), ("key", job.idempotency_key), ("unique", job.unique_key))
        if name is not None
    ]
