"""Restore on a cluster: names are reserved first, each in its own shard; then jobs are put down, each in its queue's.

A crash in between may leave a part of them; the same ones brought again complete it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.stores.common.naming import Overtaken
from dibs.stores.common.restoring import names, sift
from dibs.stores.redis import inserting, restoring
from dibs.stores.redis.cluster.owners import names_of
from dibs.stores.redis.cluster.together import together

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dibs.domain.job import Job
    from dibs.stores.common.restoring import Whole
    from dibs.stores.redis.cluster.owners import Owners
    from dibs.stores.redis.cluster.shards import Spread
    from dibs.stores.redis.part import Part, Pass

_KINDS = {b"i": "id", b"k": "key", b"u": "unique"}
_LETTERS = {kind: letter for letter, kind in _KINDS.items()}

Wanted = dict[bytes, tuple[int, str]]
"""Names, and the shard and the id of the job that each is to be reserved for."""


class Restoration:
    """One call, which may have to be tried again: what of it was put down is then found to be there."""

    def __init__(self, parts: Sequence[Part], owners: Owners, spread: Spread) -> None:
        self._parts, self._owners, self._spread = parts, owners, spread
        self._made: set[int] = set()  # which objects were put down by an earlier try

    async def restore(self, items: Sequence[Whole]) -> list[Job | None]:
        """Put down what is new; answer the rest with the jobs that have its names. ``Overtaken``: try again."""
        owners = self._owners
        shown = owners.new_pass()
        wanted = self._wanted(items)
        await owners.enter(shown, {shard for shard, _ in wanted.values()})
        met = await owners.reserve(wanted, shown)
        free = [one for one in met if one.job is None]
        try:
            if free:
                await owners.take_over(free, wanted, shown, b"i")
        except Overtaken:
            await owners.let_go(wanted, shown)
            raise
        found = [(_KINDS[one.name[:1]], one.job) for one in met if one.job is not None]
        new, answers = sift(items, found)
        needed = self._wanted(new)
        await owners.let_go(wanted.keys() - needed.keys(), shown)
        # A name may have been reserved for an earlier job of the batch, another name of which was taken.
        if others := {name: where for name, where in needed.items() if wanted[name] != where}:
            await owners.correct(others, shown)
        by_shard: dict[int, list[Whole]] = {}
        for item in new:
            by_shard.setdefault(self._shard(item), []).append(item)
        await together(self._put(shard, some, shown) for shard, some in by_shard.items())
        return [None if id(item) in self._made else answer for item, answer in zip(items, answers, strict=True)]

    def _shard(self, item: Whole) -> int:
        return self._spread.shard(item.job.queue, item.job.id)

    def _wanted(self, items: Iterable[Whole]) -> Wanted:
        wanted: Wanted = {}
        for item in items:
            where = self._shard(item), item.job.id
            for name in names_of(item.job.id, item.job.idempotency_key, item.unique_key):
                wanted.setdefault(name, where)
        return wanted

    async def _put(self, shard: int, items: Sequence[Whole], shown: Pass) -> None:
        done = 0
        for some in restoring.steps(items):
            try:
                await restoring.put(self._parts[shard], some, shown)
            except inserting.PassVoid:
                self._owners.forget(shown)
                await self._owners.let_go(self._wanted(items[done:]), shown)
                raise
            except Overtaken:
                known = await self._correct(shard, some, shown)
                await self._owners.let_go(self._wanted(items[done:]).keys() - known, shown)
                raise
            done += len(some)
            self._made.update(map(id, some))

    async def _correct(self, shard: int, items: Sequence[Whole], shown: Pass) -> set[bytes]:
        """Put right what a failover has lost: jobs are here that have these names, though no one had reserved them."""
        holders = await inserting.holders(self._parts[shard], *names(items))
        right = {_LETTERS[kind] + name.encode(): (shard, job.id) for kind, name, job in holders}
        await self._owners.correct(right, shown)
        return set(right)
