"""Insert: each group whole or not at all; small groups together, if nothing in them is known already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.store import Refusal
from dibs.stores.common.naming import Identified, Named, Overtaken
from dibs.stores.redis import reading, staging, values
from dibs.stores.redis.part import NO_PASS, Pass
from dibs.stores.redis.scripts import script
from dibs.stores.redis.wording import STEP, Words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.domain.job import Draft, Job
    from dibs.stores.redis.part import Part

_INSERT = script("insert")
_NAMED = script("insert_named")


async def insert_plain(site: Part, groups: Sequence[Sequence[Draft]]) -> list[list[Job]]:
    """Insert groups together if every draft is new; ``Overtaken`` if one of them is not, and nothing was written."""
    drafts = [draft for group in groups for draft in group]
    now = await _insert(site, drafts) if drafts else 0
    return [[draft.job(now) for draft in group] for group in groups]


def steps(groups: Sequence[Sequence[Draft]]) -> list[list[Sequence[Draft]]]:
    """Divide groups so that no script takes long; a single group may still be large."""
    found: list[list[Sequence[Draft]]] = []
    number = 0
    for group in groups:
        if not found or number + len(group) > STEP:
            found.append([])
            number = 0
        found[-1].append(group)
        number += len(group)
    return found


async def insert_group(site: Part, group: Sequence[Draft]) -> list[Job] | Refusal:
    """Insert one group, or say why not; ``Overtaken`` if it is to be tried again."""
    named = Named((by, job) for by, _, job in await holders_of(site, group))
    found = Identified(group, named)
    if found.mismatch is not None:
        return found.refusal(await reading.now(site))
    return found.jobs(await _insert(site, list(found.new.values())) if found.new else 0)


async def _insert(site: Part, drafts: Sequence[Draft]) -> int:
    """Insert new jobs of one shard, all of them or none; say when."""
    return await (insert if staging.is_small(drafts) else staging.insert)(site, drafts)


class PassVoid(Overtaken):
    """The pass that was shown is not valid, or not any more."""


async def insert(site: Part, drafts: Sequence[Draft], shown: Pass = NO_PASS) -> int:
    """Insert new jobs by one script; say when."""
    said = Words(drafts)
    words = [*shown, site.number, len(drafts), *said.runs, *said.jobs, *(word for name in said.names for word in name)]

    async def run(hint: str) -> int:
        now = int(await site.run(_INSERT, site.told, hint, *words))
        if now <= 0:
            raise PassVoid if now else Overtaken
        return now

    return await site.announce({(draft.queue, draft.task) for draft in drafts}, run)


async def holders_of(site: Part, drafts: Sequence[Draft]) -> list[tuple[str, str, Job]]:
    """Read the jobs that drafts may name: what each was found by (id, key or unique), that name, and the job."""
    return await holders(
        site,
        [draft.id for draft in drafts],
        [draft.idempotency_key for draft in drafts if draft.idempotency_key is not None],
        [draft.unique_key for draft in drafts if draft.unique_key is not None],
    )


async def holders(
    site: Part, ids: Sequence[str], keys: Sequence[str], unique: Sequence[str]
) -> list[tuple[str, str, Job]]:
    """Read the jobs that have these names: what each was found by, that name, and the job."""
    named = [*(("id", id) for id in ids), *(("key", key) for key in keys), *(("unique", key) for key in unique)]
    found: list[tuple[str, str, Job]] = []
    for at in range(0, len(named), STEP):
        some = named[at : at + STEP]
        kinds = [kind for kind, _ in some]
        answer = await site.run(_NAMED, kinds.count("id"), kinds.count("key"), *(name for _, name in some))
        read = zip(some, answer[::2], answer[1::2], strict=True)
        found += [(kind, name, values.shown(body, state)) for (kind, name), body, state in read if body]
    return found
