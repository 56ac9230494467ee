"""Names: which lanes drafts go to, and which jobs they may be, among those stored and those that come before them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from dibs.domain.transitions import identify
from dibs.store import Refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from dibs.domain.job import Draft, Job

LaneKey = tuple[str, str, int]
Lanes = dict[LaneKey, int]


class Overtaken(Exception):
    """Someone else took a name, or removed a lane, a moment ago: nothing was written, and asking again helps."""


def keys(drafts: Iterable[Draft | Job]) -> set[LaneKey]:
    """Name the lanes that drafts go to, or whole jobs."""
    return {(draft.queue, draft.task, draft.priority) for draft in drafts}


def is_plain(groups: Sequence[Sequence[Draft]], *, tagged: bool = False) -> bool:
    """Say whether drafts can be inserted in one statement: no name twice, and no tags unless the store takes those."""
    ids, idempotency, unique, number = set(), set(), set(), 0
    for group in groups:
        for draft in group:
            if draft.terms.tags and not tagged:
                return False
            number += 1
            ids.add(draft.id)
            if draft.idempotency_key is not None:
                if draft.idempotency_key in idempotency:
                    return False
                idempotency.add(draft.idempotency_key)
            if draft.unique_key is not None:
                if draft.unique_key in unique:
                    return False
                unique.add(draft.unique_key)
    return len(ids) == number


class Known:
    """The lanes that this process remembers. One may be gone by now: who inserts into it looks."""

    def __init__(self, add: Callable[[set[LaneKey]], Awaitable[Lanes]]) -> None:
        self._add = add
        self._lanes: Lanes = {}

    async def of(self, groups: Sequence[Sequence[Draft | Job]]) -> Lanes:
        """Find the lanes that drafts go to; those that are not remembered are looked up, or made."""
        wanted = {key for group in groups for key in keys(group)}
        known = dict(self._lanes)  # others may forget it meanwhile
        missing = wanted.difference(known)
        found = await self._add(missing) if missing else {}
        if len(self._lanes) > 10_000:  # noqa: PLR2004 - names without end are not remembered without end
            self._lanes.clear()
        self._lanes.update(found)
        return {**known, **found}

    def forget(self) -> None:
        """Look them all up again."""
        self._lanes.clear()


class Named:
    """The jobs that a group's drafts may name: given as what they were found by (id, key or unique), and the job."""

    def __init__(self, found: Iterable[tuple[str, Job]]) -> None:
        self._by: dict[str, dict[str, Job]] = {"id": {}, "key": {}, "unique": {}}
        for by, job in found:
            self._by[by][{"id": job.id, "key": job.idempotency_key, "unique": job.unique_key}[by] or ""] = job

    def identify(self, draft: Draft) -> tuple[Job | None, str | None]:
        """Ask the domain which job a draft is, if any, and in what they differ."""
        by = self._by
        return identify(
            draft,
            by["id"].get(draft.id),
            None if draft.idempotency_key is None else by["key"].get(draft.idempotency_key),
            None if draft.unique_key is None else by["unique"].get(draft.unique_key),
        )

    def add(self, job: Job) -> None:
        """Let later drafts of the group see this one."""
        self._by["id"][job.id] = job
        if job.idempotency_key is not None:
            self._by["key"][job.idempotency_key] = job
        if job.unique_key is not None:
            self._by["unique"][job.unique_key] = job


class Identified:
    """A group's drafts, in order, each found to be new or a duplicate; up to the first that does not fit its job."""

    def __init__(self, group: Sequence[Draft], named: Named) -> None:
        self.new: dict[str, Draft] = {}
        self.mismatch: tuple[int, str, Job] | None = None
        self.found: list[tuple[Job, bool]] = []  # each one's job, and whether it is a duplicate
        for index, draft in enumerate(group):
            first, field = named.identify(draft)
            if first is None:
                job = draft.job(0)  # the time is known once they are in
                named.add(job)
                self.new[draft.id] = draft
                self.found.append((job, False))
            elif field is None:
                self.found.append((first, True))
            else:
                self.mismatch = (index, field, first)
                return

    def refusal(self, now: int) -> Refusal:
        """Say why the group is refused. The job in its way may be one of its own, which would have been made now."""
        assert self.mismatch is not None  # noqa: S101 - else it is not refused
        index, field, first = self.mismatch
        return Refusal(index, field, self.new[first.id].job(now) if first.id in self.new else first)

    def jobs(self, now: int) -> list[Job]:
        """Answer the group: the new ones as they were inserted now."""
        made = {id: draft.job(now) for id, draft in self.new.items()}
        return [replace(made.get(job.id, job), was_duplicate=duplicate) for job, duplicate in self.found]
