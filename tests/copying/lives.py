"""A store in the middle of its life: jobs in every state, with logs, keys, tags, errors and results, and documents."""

from __future__ import annotations

from dibs.broker.roster import Roster
from dibs.domain import transitions
from dibs.domain.job import Draft, Event, Extension, Job
from dibs.store import PAUSED, Store
from dibs.testing.conformance.builders import claim, completed, enqueue, failed, new_job, released, settle
from dibs.testing.conformance.read import audited

ROUND = 200
DOCUMENTS = {
    "once/mail-7": b'"sent"',
    "schedule/nightly": b'{"cron":"0 3 * * *"}',
    "schema/t": b"{}",
    "secret/x": b"\0\xff",
}


async def fill(store: Store, number: int, prefix: str = "") -> None:
    """Add so many jobs, and let most of them live."""
    for at in range(0, number, ROUND):
        drafts = [_draft(f"{prefix}{n:06}", n) for n in range(at, min(at + ROUND, number))]
        await enqueue(store, *drafts)
        held = await claim(store, f"worker-{at}", limit=ROUND * 3 // 4)
        await store.extend([Extension(job.ref, n / 7, f"note {n}") for n, job in enumerate(held[:20])])
        await settle(store, *(_end(n, job) for n, job in enumerate(held)))
        ids = [job.id for job in held[:ROUND:9]]
        await settle(store, *(transitions.cancel(id, "ann") for id in ids))
        await settle(store, *(transitions.redrive(id, "bob") for id in ids[::2]))


def _draft(id: str, n: int) -> Draft:
    return new_job(
        id,
        queue=("default", "mail", "a/b")[n % 3],
        task=f"task-{n % 5}",
        params=b'{"n":%d,"text":"\xc3\xa4"}' % n,
        priority=n % 4 - 2,
        max_attempts=2 + n % 4,
        delay=None if n % 97 == 0 else 3600 if n % 11 == 0 else 0,
        keep=86_400 * (1 + n % 3),
        tags=("red", f"tag-{n % 10}") if n % 2 else (),
        idempotency_key=f"key-{id}" if n % 4 == 0 else None,
        unique_key=f"unique-{id}" if n % 5 == 0 else None,
        batch_id=f"batch-{n % 13}" if n % 6 == 0 else None,
    )


def _end(n: int, job: Job) -> transitions.Write:
    kind = n % 5
    if kind == 0:
        return failed(job, delay=60)
    if kind == 1:
        return failed(job, retryable=False)
    if kind == 2:
        return released(job, delay=30)
    return completed(job, b'{"result":[%d]}' % n)


async def furnish(store: Store) -> None:
    """Add documents of every kind."""
    for name, value in DOCUMENTS.items():
        await store.put(name, value)
    await store.put("once/brief", b"1", keep_us=3600 * 1_000_000)
    await store.put(PAUSED + "a/b", b'{"by":"ann"}')
    await Roster(store).beat("worker-1", {}, 10_000_000)


async def contents(store: Store) -> list[tuple[Job, list[Event]]]:
    """Read all jobs, in order, with their logs."""
    return [(job, list(events)) for job, events in await audited(store, 1000) if job is not None]
