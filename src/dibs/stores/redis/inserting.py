"""Insert: each group whole or not at all; all groups in one script, if nothing in them is known already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.store import Refusal
from dibs.stores.common.naming import Identified, Named, Overtaken
from dibs.stores.common.rows import TermsWriter
from dibs.stores.redis import reading, values
from dibs.stores.redis.part import NO_PASS, Pass
from dibs.stores.redis.scripts import script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.domain.job import Draft, Job
    from dibs.stores.redis.part import Part

_INSERT = script("insert")
_NAMED = script("insert_named")

_STEP = 300  # jobs of several groups that are inserted together; one group is never divided


async def insert_plain(site: Part, groups: Sequence[Sequence[Draft]]) -> list[list[Job]]:
    """Insert groups together if every draft is new; ``Overtaken`` if one of them is not, and nothing was written."""
    drafts = [draft for group in groups for draft in group]
    now = await insert(site, drafts) if drafts else 0
    return [[draft.job(now) for draft in group] for group in groups]


def steps(groups: Sequence[Sequence[Draft]]) -> list[list[Sequence[Draft]]]:
    """Divide groups so that no script takes long, but for a single large group."""
    found: list[list[Sequence[Draft]]] = []
    number = 0
    for group in groups:
        if not found or number + len(group) > _STEP:
            found.append([])
            number = 0
        found[-1].append(group)
        number += len(group)
    return found


async def insert_group(site: Part, group: Sequence[Draft]) -> list[Job] | Refusal:
    """Insert one group, or say why not; ``Overtaken`` if it is to be tried again."""
    named = Named((by, job) for by, _, job in await holders(site, group))
    found = Identified(group, named)
    if found.mismatch is not None:
        return found.refusal(await reading.now(site))
    return found.jobs(await insert(site, list(found.new.values())) if found.new else 0)


class PassVoid(Overtaken):
    """The pass that was shown is not valid, or not any more."""


async def insert(site: Part, drafts: Sequence[Draft], shown: Pass = NO_PASS) -> int:
    """Insert new jobs; say when."""
    words = [*shown, site.number, *_words(drafts)]

    async def run(hint: str) -> int:
        now = int(await site.run(_INSERT, site.told, hint, *words))
        if now <= 0:
            raise PassVoid if now else Overtaken
        return now

    return await site.announce({(draft.queue, draft.task) for draft in drafts}, run)


def _words(drafts: Sequence[Draft]) -> list[Any]:
    """Say what is to be inserted; what jobs in a row have in common is said once."""
    terms = TermsWriter()
    last: tuple[Any, ...] | None = None
    runs: list[list[Any]] = []
    jobs: list[Any] = []
    names: list[Any] = []
    for number, draft in enumerate(drafts, 1):
        sort = (draft.queue, draft.task, draft.priority, draft.max_attempts, draft.delay_us, draft.scheduled_us)
        if sort != last:
            last = sort
            lane, left = values.lane(draft.queue, draft.task, draft.priority), values.left(draft.max_attempts)
            runs.append([lane, left, draft.delay_us or 0, values.due(draft), 0])
        runs[-1][-1] += 1
        jobs += (draft.id, values.settled(draft, terms))
        if draft.idempotency_key is not None:
            names += (number, b"k", draft.idempotency_key)
        if draft.unique_key is not None:
            names += (number, b"u", draft.unique_key)
        if draft.batch_id is not None or draft.terms.tags:
            for index in values.indexed(draft.batch_id, draft.terms.tags):
                names += (number, b"i", index)
    return [len(drafts), len(runs), *(word for run in runs for word in run), *jobs, *names]


async def holders(site: Part, drafts: Sequence[Draft]) -> list[tuple[str, str, Job]]:
    """Read the jobs that drafts may name: what each was found by (id, key or unique), that name, and the job."""
    ids = [draft.id for draft in drafts]
    keys = [draft.idempotency_key for draft in drafts if draft.idempotency_key is not None]
    unique = [draft.unique_key for draft in drafts if draft.unique_key is not None]
    names = [*ids, *keys, *unique]
    kinds = ["id"] * len(ids) + ["key"] * len(keys) + ["unique"] * len(unique)
    answer = await site.run(_NAMED, len(ids), len(keys), *names)
    found = zip(kinds, names, answer[::2], answer[1::2], strict=True)
    return [(kind, name, values.shown(body, state)) for kind, name, body, state in found if body]
