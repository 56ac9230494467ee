"""Restore: whole jobs with their logs, as another store has them; a few at a time, so that no script takes long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.stores.common import restoring
from dibs.stores.common.naming import Overtaken
from dibs.stores.common.rows import TermsWriter
from dibs.stores.redis import inserting, values
from dibs.stores.redis.part import NO_PASS, Pass
from dibs.stores.redis.scripts import script
from dibs.stores.redis.wording import INDEX, KEY, UNIQUE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dibs.domain.job import Job
    from dibs.stores.common.restoring import Whole
    from dibs.stores.redis.part import Part

_RESTORE = script("restore")

_MOST_EVENTS = 150  # that one script puts down, each job counting as one
_MOST_BYTES = 2**20


def steps(items: Sequence[Whole]) -> Iterator[list[Whole]]:
    """Divide jobs so that no script takes long; one with a long log may still do."""
    some: list[Whole] = []
    events = size = 0
    for item in items:
        weight = len(item.job.params_json) + len(item.job.result_json or b"")
        if some and (events + len(item.events) > _MOST_EVENTS or size + weight > _MOST_BYTES):
            yield some
            some, events, size = [], 0, 0
        some.append(item)
        events += len(item.events)
        size += weight
    if some:
        yield some


async def restore(site: Part, items: Sequence[Whole]) -> list[Job | None]:
    """Put down what is new; answer the rest with the jobs that have its names. ``Overtaken``: try again."""
    found = await inserting.holders(site, *restoring.names(items))
    new, answers = restoring.sift(items, ((by, job) for by, _, job in found))
    if new:
        await put(site, new)
    return answers


async def put(site: Part, items: Sequence[Whole], shown: Pass = NO_PASS) -> None:
    """Put jobs down by one script, all of them or none."""
    terms = TermsWriter()
    words = [*shown, site.number, restoring.latest(items), len(items)]
    for item in items:
        words += _words(item, terms)

    async def run(hint: str) -> None:
        now = int(await site.run(_RESTORE, site.told, hint, *words))
        if now <= 0:
            raise inserting.PassVoid if now else Overtaken

    await site.announce({(item.job.queue, item.job.task) for item in items}, run)


def _words(item: Whole, terms: TermsWriter) -> list[Any]:
    job, ends = item.job, item.expires
    body = values.long(job.created_us) + values.long(item.first_due) + values.settled(job, terms)
    if ends is None:
        place = (b"p", values.lane(*item.lane) + values.long(job.due_us), values.left(job.attempts_left))
    else:
        place = (b"d", values.done(job, b"", ends), b"")
    names: list[Any] = []
    if job.idempotency_key is not None:
        names += (KEY, job.idempotency_key)
    if item.unique_key is not None:
        names += (UNIQUE, item.unique_key)
    for index in values.indexed(job.batch_id, job.tags):
        names += (INDEX, index)
    state = b"" if job.events == 1 else values.state(job, ends)
    events = [values.event(event) for event in item.events[1:]]
    return [job.id, body, state, *place, len(events), *events, len(names) // 2, *names]
