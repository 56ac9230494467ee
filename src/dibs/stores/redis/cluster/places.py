"""Places: in which shard a job is. One that was claimed here is remembered; of others their id's owner tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from dibs.stores.redis.cluster.owners import by_id
from dibs.stores.redis.cluster.together import reachable, together

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from dibs.domain.job import Job
    from dibs.stores.redis.cluster.owners import Owners
    from dibs.stores.redis.part import Part

Q = TypeVar("Q")
A = TypeVar("A")

_MOST = 100_000  # jobs whose places are remembered


class Places:
    """What one event loop knows of where jobs are."""

    def __init__(self, parts: Sequence[Part], owners: Owners) -> None:
        self._parts, self._owners = parts, owners
        self._known: dict[str, int] = {}

    def remember(self, jobs: Iterable[Job], shard: int) -> None:
        """Note where jobs were claimed."""
        self._known.update((job.id, shard) for job in jobs)
        while len(self._known) > _MOST:
            del self._known[next(iter(self._known))]

    async def find(self, ids: Sequence[str]) -> list[int | None]:
        """Say where jobs are; none if no one has that id."""
        missing = list(dict.fromkeys(id for id in ids if id not in self._known))
        owners = dict(zip(missing, await self._owners.read([by_id(id) for id in missing]), strict=True))
        found = {id: owner.shard for id, owner in owners.items() if owner is not None}
        return [self._known.get(id, found.get(id)) for id in ids]

    async def each(
        self,
        asked: Sequence[Q],
        ids: Sequence[str],
        ask: Callable[[Part, list[Q]], Awaitable[Sequence[A]]],
        *,
        missing: A,
        away: A | None = None,
    ) -> list[A]:
        """Ask each job's shard about it; those that are not there, or whose shard is away, are answered so.

        Without an answer for those, a shard that is away is told.
        """
        answers = await self._each(asked, ids, ask, missing=missing, away=away)
        # A place that was remembered may be an earlier job's of the same id.
        again = [
            at for at, answer in enumerate(answers) if answer == missing and self._known.pop(ids[at], None) is not None
        ]
        if again:
            some = await self._each(
                [asked[at] for at in again], [ids[at] for at in again], ask, missing=missing, away=away
            )
            for at, answer in zip(again, some, strict=True):
                answers[at] = answer
        return answers

    async def _each(
        self,
        asked: Sequence[Q],
        ids: Sequence[str],
        ask: Callable[[Part, list[Q]], Awaitable[Sequence[A]]],
        *,
        missing: A,
        away: A | None,
    ) -> list[A]:
        by_shard: dict[int, list[int]] = {}
        answers: list[A] = [missing] * len(asked)
        for at, shard in enumerate(await self.find(ids)):
            if shard is not None:
                by_shard.setdefault(shard, []).append(at)
        answered = [ask(self._parts[shard], [asked[at] for at in some]) for shard, some in by_shard.items()]
        found: Sequence[Sequence[A] | None] = await (together if away is None else reachable)(answered)
        for some, answer in zip(by_shard.values(), found, strict=True):
            for place, at in enumerate(some):
                answers[at] = answer[place] if answer is not None else cast("A", away)
        return answers

    def forget(self, ids: Iterable[str]) -> None:
        """Remember no longer where jobs are: their claims have ended."""
        for id in ids:
            self._known.pop(id, None)
